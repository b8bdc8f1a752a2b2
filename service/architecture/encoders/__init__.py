"""Encoders of images and sound: their weights and the sizes of their inputs."""
