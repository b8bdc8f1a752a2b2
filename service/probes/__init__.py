"""Probe jobs: the work of a probe, and the rules by which a job changes its state."""
