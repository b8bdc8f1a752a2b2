"""GPU types: what CUDA says of each card, with its source."""
