"""Reads the startup log of an engine: converts its lines to facts. Any text is accepted."""
