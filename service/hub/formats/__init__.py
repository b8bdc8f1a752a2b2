"""Reads what files of models say of their tensors, from untrusted bytes."""
