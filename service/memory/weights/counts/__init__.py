"""Bytes of the parameters of a rank: the sum over the modules it builds."""
