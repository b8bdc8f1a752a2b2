"""What a text says of the command, the host, its GPUs and drivers."""
