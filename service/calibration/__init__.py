"""Measurements of real starts, and the residuals that are learned from them for later plans."""
