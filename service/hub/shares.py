"""A share of what is scarce for each who wants it."""

from __future__ import annotations

from asyncio import Semaphore
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@dataclass(slots=True)
class _Share:
    """What is free for one owner, and how many use it or wait for it."""

    free: Semaphore
    users: int = 0


class Shares:
    """Lets each owner do at most `most` things at a time; nothing is kept of one who does none."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._shares: dict[str, _Share] = {}

    @asynccontextmanager
    async def of(self, owner: str) -> AsyncIterator[None]:
        """Wait until the owner does fewer, and do one more."""
        share = self._shares.setdefault(owner, _Share(Semaphore(self._most)))
        share.users += 1
        try:
            async with share.free:
                yield
        finally:
            share.users -= 1
            if share.users == 0:
                del self._shares[owner]
