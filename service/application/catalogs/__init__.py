"""What may be asked: bundled models, releases with their rules and flags, the values of a flag."""
