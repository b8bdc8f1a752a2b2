"""Caches of results by model, emptied once the lists of names that their keys hold have become too many.

A checkpoint may name 250,000 modules in 16 MiB. A cache of 256 results may hold as many such lists, so what
all caches hold is bounded by the characters of the lists and not by the number of the results alone.
"""

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Final, Protocol, TypeVar

MOST_CHARACTERS: Final = 32 << 20
"""Characters of long lists that caches hold; what is made of them takes twice as much again.

To free a list of 250,000 takes 25 ms: the fewer, the less one request waits for it.
"""
BESIDE: Final = 49
"""Bytes that a string takes beside its characters."""


class Clearable(Protocol):
    """What ``lru_cache`` returns."""

    def cache_clear(self) -> None:
        """Forget all results."""


C = TypeVar("C", bound=Clearable)


class LongLists:
    """Counts the characters of long lists since the caches were emptied."""

    def __init__(self, most: int = MOST_CHARACTERS) -> None:
        self.most = most
        self._characters = 0
        self._forget: list[Callable[[], None]] = []
        self._lock = Lock()

    def emptied(self, cached: C) -> C:
        """Have a cache emptied when the lists have become too many."""
        self._forget.append(cached.cache_clear)
        return cached

    def add(self, lengths: Sequence[int]) -> None:
        """Count a list by the lengths of its names; empty the caches first if that makes them too many."""
        size = sum(lengths) + BESIDE * len(lengths)
        with self._lock:
            self._characters += size
            if self._characters <= self.most:
                return
            self._characters = size
            for forget in self._forget:
                forget()


LONG_LISTS: Final = LongLists()
