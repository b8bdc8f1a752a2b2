"""What each byte of a rank goes to."""
