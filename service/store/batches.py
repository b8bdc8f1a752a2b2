"""Batches in which measurements are read."""

from collections.abc import Iterator, Sequence
from typing import Final

BATCH_SIZE: Final = 100
"""Measurements that are read in one batch. Each contains a model's config, so a batch must stay small."""


def batches(names: Sequence[str]) -> Iterator[Sequence[str]]:
    """Return digests in batches of at most ``BATCH_SIZE``."""
    return (names[start : start + BATCH_SIZE] for start in range(0, len(names), BATCH_SIZE))
