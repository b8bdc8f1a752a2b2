"""Single changes to a start that works, each with its gain and cost."""
