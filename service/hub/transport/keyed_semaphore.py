"""A semaphore for each key."""

from __future__ import annotations

from asyncio import Semaphore
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@dataclass(slots=True)
class _Entry:
    """The semaphore of one key, and how many tasks hold it or wait for it."""

    semaphore: Semaphore
    users: int = 0


class KeyedSemaphore:
    """Limits how many tasks run at the same time for each key; a key without tasks uses no memory."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._entries: dict[str, _Entry] = {}

    @asynccontextmanager
    async def acquire(self, key: str) -> AsyncIterator[None]:
        """Wait until fewer than `most` tasks run for a key, then run as one of them."""
        entry = self._entries.setdefault(key, _Entry(Semaphore(self._most)))
        entry.users += 1
        try:
            async with entry.semaphore:
                yield
        finally:
            entry.users -= 1
            if entry.users == 0:
                del self._entries[key]
