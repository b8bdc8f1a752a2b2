"""One question to several engines, and their answers side by side."""
