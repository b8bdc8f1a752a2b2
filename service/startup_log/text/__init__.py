"""Lines of a text: split, bounded, without secrets, and what wrote them."""
