"""What each engine release does, as dated data."""
