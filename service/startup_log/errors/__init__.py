"""Exceptions and tracebacks in a log, whatever stands before them."""
