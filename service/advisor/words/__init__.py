"""What a plan found, in sentences."""
