"""Config to architecture: layers, heads, windows, states."""
