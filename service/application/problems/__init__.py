"""What callers are told of errors: problem types (RFC 9457), and the problem that describes one error."""
