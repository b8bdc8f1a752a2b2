"""What helps against a cause, as far as the start that failed can do it and has not done it."""
