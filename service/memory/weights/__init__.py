"""Bytes of the weights of one rank, module by module."""
