"""Mistral's own config format (params.json), and the config that the engine makes of it."""
