"""Stores jobs, measurements and tokens in SQLite or PostgreSQL."""
