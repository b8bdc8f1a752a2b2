"""Classes that put encoders of other media before a text model, or beside its decoder."""
