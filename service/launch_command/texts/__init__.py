"""Starts in programs, in lists of words and in what people write, and the release that such a text says."""
