"""Problem types (RFC 9457) and the handlers that turn errors into them."""
