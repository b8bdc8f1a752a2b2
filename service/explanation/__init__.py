"""Compares the log of a real start with its plan: what agrees, what differs, why it failed, what fixes it."""
