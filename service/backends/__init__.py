"""Which attention backend reads a layer's cache."""
