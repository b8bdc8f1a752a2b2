"""ASGI middleware: request log, limits on sizes and connections."""
