"""Probe jobs: what a worker is asked to run, and the rules by which a job changes its state."""
