"""Encoders of images and sound beside the decoder: their weights and the sizes of what they encode."""
