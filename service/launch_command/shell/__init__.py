"""Starts in shell text: its tokens, its words with variables replaced, the commands that start the engine."""
