"""Real configs changed at random: every one is planned or refused by name."""
