"""GPU types: the memory that CUDA reports on each, its interval, and the source of both."""
