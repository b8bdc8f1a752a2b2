"""Single flight: concurrent callers that need the same result share one fetch."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Hashable

Result = TypeVar("Result")


class SingleFlight(Generic[Result]):
    """The running fetches by key. A result is not stored after its fetch has ended."""

    def __init__(self) -> None:
        self._running: dict[Hashable, _Flight[Result]] = {}

    async def join(self, key: Hashable, fetch: Callable[[], Coroutine[object, object, Result]]) -> Result:
        """Return the result of `fetch`, or of a fetch that already runs for `key`.

        A caller that is cancelled does not cancel the fetch for the others; the fetch is cancelled when no
        caller waits for it any more.
        """
        loop = asyncio.get_running_loop()
        flight = self._running.get(key)
        if flight is None or flight.task.get_loop() is not loop:
            flight = self._running[key] = _Flight(loop.create_task(fetch()))
        flight.waiting += 1
        try:
            return await asyncio.shield(flight.task)
        finally:
            flight.waiting -= 1
            if flight.waiting == 0:
                if self._running.get(key) is flight:
                    del self._running[key]
                await _cancel_and_wait(flight.task)


@dataclass(slots=True)
class _Flight(Generic[Result]):
    """A running fetch and the number of callers that wait for it."""

    task: asyncio.Task[Result]
    waiting: int = 0


async def _cancel_and_wait(task: asyncio.Task[Result]) -> None:
    if not task.done():
        task.cancel()
        await asyncio.wait({task})
