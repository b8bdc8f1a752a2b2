"""The use cases: wire schemas, text for people, plans, logs and probe jobs. Knows no HTTP framework."""
