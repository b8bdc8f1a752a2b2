"""The migrations that create and change the tables, one after another."""
