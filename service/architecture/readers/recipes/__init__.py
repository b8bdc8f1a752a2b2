"""What readers share: how a class is read, recipes of decoders, and which layers have windows."""
