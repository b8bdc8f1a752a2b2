"""Problem types (RFC 9457), and the problem that describes an error to a caller."""
