"""Connections of callers: their limits, and the protocols that read them."""
