"""Reads a start of the engine from a shell line, a container, a manifest, a program or a file."""
