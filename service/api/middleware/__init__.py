"""ASGI middleware: request log, size limits."""
