"""Sentences that people write around a log."""
