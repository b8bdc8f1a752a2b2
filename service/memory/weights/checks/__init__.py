"""Layouts of weights that a release or a GPU refuses."""
