"""What the layers of a decoder are built of: one type of mixer, network or frame in each module."""
