"""Models that return vectors or scores."""
