"""Layers to specs, pages, groups, blocks and tokens."""
