"""What is asked: bodies, flat parameters and query strings of plans."""
