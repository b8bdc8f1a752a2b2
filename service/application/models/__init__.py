"""The model that a request or a log names: its config, its draft, and models like it."""
