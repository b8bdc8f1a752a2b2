"""Plans and explanations as text."""
