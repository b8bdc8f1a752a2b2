"""Decoders that attend to selected or compressed tokens."""
