"""Probe jobs, their results, and what workers send and get."""
