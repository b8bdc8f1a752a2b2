"""What the address of a page asks, the form beside it, and addresses of other questions."""
