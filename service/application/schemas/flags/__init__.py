"""The flags of a start that a request may hold, their types and limits."""
