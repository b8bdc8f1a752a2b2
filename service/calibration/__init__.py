"""Measurements, and what is learned from them for later plans."""
