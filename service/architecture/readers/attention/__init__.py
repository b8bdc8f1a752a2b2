"""Decoders that attend to all tokens or to a window: multi-head attention and MLA, dense and with experts."""
