"""Configs and names of checkpoints that come with the package, for hosts without the Hub."""
