"""Starts in documents that describe containers: Compose, Kubernetes, charts' values, ``docker inspect``."""
