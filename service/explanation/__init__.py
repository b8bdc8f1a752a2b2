"""A real start beside its plan: what agrees, what differs, why it failed and what gets past it."""
