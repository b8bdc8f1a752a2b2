"""Types of a plan: a start of the engine, its verdict, and what is said of it."""
