"""One reader per family of configs."""
