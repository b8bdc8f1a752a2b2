"""What the Hub has answered, kept in a file and in memory, and asked for once at a time."""
