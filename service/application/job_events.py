"""Wakes those who wait for a change of the jobs of this process."""

import asyncio
from contextlib import suppress


class JobEvents:
    """Everyone who waits is woken at once; what other processes change is not heard."""

    def __init__(self) -> None:
        self._rung = asyncio.Event()
        self.closed = False

    def ring(self) -> None:
        """Wake everyone."""
        self._rung.set()
        self._rung = asyncio.Event()

    def close(self) -> None:
        """Wake everyone for good: the service ends, and nobody is to wait any longer."""
        self.closed = True
        self.ring()

    async def heard(self, seconds: float) -> None:
        """Wait for the bell, but no longer than so many seconds."""
        if self.closed:
            return
        with suppress(TimeoutError):
            await asyncio.wait_for(self._rung.wait(), seconds)
