"""Which failure a text shows: the root among its errors, and its cause."""
