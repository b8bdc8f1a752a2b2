"""One fetch for all who want the same at the same time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Hashable

Result = TypeVar("Result")


class SingleFlight(Generic[Result]):
    """Fetches under way, by what they fetch. Nothing is kept once a fetch has ended."""

    def __init__(self) -> None:
        self._under_way: dict[Hashable, _Flight[Result]] = {}

    async def join(self, key: Hashable, fetch: Callable[[], Coroutine[object, object, Result]]) -> Result:
        """Return what `fetch` does, or what one already under way for `key` does.

        Who leaves takes nobody else's answer away; when all have left, the fetch ends.
        """
        loop = asyncio.get_running_loop()
        flight = self._under_way.get(key)
        if flight is None or flight.task.get_loop() is not loop:
            flight = self._under_way[key] = _Flight(loop.create_task(fetch()))
        flight.waiting += 1
        try:
            return await asyncio.shield(flight.task)
        finally:
            flight.waiting -= 1
            if flight.waiting == 0:
                if self._under_way.get(key) is flight:
                    del self._under_way[key]
                await _ended(flight.task)


@dataclass(slots=True)
class _Flight(Generic[Result]):
    """A fetch and how many wait for it."""

    task: asyncio.Task[Result]
    waiting: int = 0


async def _ended(task: asyncio.Task[Result]) -> None:
    if not task.done():
        task.cancel()
        await asyncio.wait({task})
