"""Decoders with recurrent states: state spaces, delta nets, linear attention, short convolutions."""
