"""The HTTP face: questions in, plans out, faults as RFC 9457 problems."""
