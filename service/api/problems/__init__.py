"""Problem types that only HTTP has, and the handlers that turn errors into problems."""
