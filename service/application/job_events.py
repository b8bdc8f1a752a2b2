"""Wakes the tasks that wait for a change of the jobs."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

POLL_SECONDS: Final = 1.0
"""Longest wait between two looks at the database: another process changes jobs without notifying this one."""


class JobEvents:
    """Tells the tasks of this process that a job has changed; each notification wakes all of them."""

    def __init__(self) -> None:
        self._changed = asyncio.Event()
        self.on_notify: list[Callable[[], None]] = []
        """Called at each change that this process made."""
        self.closed = False
        """Whether the service is shutting down, so that nobody should wait any longer."""

    def notify(self) -> None:
        """Wake everyone who waits, here and in the processes that `on_notify` reaches."""
        self.wake()
        for each in self.on_notify:
            each()

    def wake(self) -> None:
        """Wake everyone who waits in this process."""
        self._changed.set()
        self._changed = asyncio.Event()

    def close(self) -> None:
        """Wake everyone who waits, and let nobody wait from now on."""
        self.closed = True
        self.wake()

    async def wait(self, seconds: float) -> None:
        """Return at the next notification, or after so many seconds."""
        if self.closed:
            return
        with suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), seconds)
