"""What a probe is asked to do, how its job lives, and what it measures."""
