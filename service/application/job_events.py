"""Wakes the tasks that wait for a change of the jobs."""

import asyncio
from contextlib import suppress
from typing import Final

POLL_SECONDS: Final = 1.0
"""Longest wait between two looks at the database: another process changes jobs without notifying this one."""


class JobEvents:
    """Tells the tasks of this process that a job has changed; each notification wakes all of them."""

    def __init__(self) -> None:
        self._changed = asyncio.Event()
        self.closed = False
        """Whether the service is shutting down, so that nobody should wait any longer."""

    def notify(self) -> None:
        """Wake everyone who waits."""
        self._changed.set()
        self._changed = asyncio.Event()

    def close(self) -> None:
        """Wake everyone who waits, and let nobody wait from now on."""
        self.closed = True
        self.notify()

    async def wait(self, seconds: float) -> None:
        """Return at the next notification, or after so many seconds."""
        if self.closed:
            return
        with suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), seconds)
