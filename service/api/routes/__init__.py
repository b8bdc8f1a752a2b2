"""One module for each kind of address."""
