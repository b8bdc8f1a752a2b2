"""The engine's steps for one set of flags on one GPU type, and the cache of their results."""
