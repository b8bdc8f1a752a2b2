"""Candidates, verdicts and the command to run."""
