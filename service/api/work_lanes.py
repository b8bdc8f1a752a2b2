"""Runs the CPU-bound work of requests in threads, in a lane for each size of work.

Work of a kind that took less than ``LOOP_SECONDS`` the last time is done on the event loop at once, because
handing it to a thread takes as long as the work itself. Where it takes longer this time, as a search does
whose length leads to other starts, a thread does it after all.

Each lane does one piece of work at a time, so that small work never waits for larger work. There is one
thread for each lane, and no more: the threads of one interpreter share one processor's time, so that each
further thread would delay the event loop, and would hold the memory of one more answer. Larger work stops
while smaller work runs.
"""

from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Final, TypeVar

from starlette.requests import Request

from service.api.caller_quota import CallerQuota
from service.api.durations import Durations, LongerThanBefore
from service.api.lane import Lane

Result = TypeVar("Result")

SMALL_LIMIT: Final = 1024
"""Pieces of small work that may wait: some 30 s of one core."""
MEDIUM_LIMIT: Final = 256
"""Pieces of medium work that may wait: some 60 s of one core."""
LARGE_LIMIT: Final = 64
"""Pieces of large work that may wait: one to two minutes of one core."""
LIMIT_SECONDS: Final = 60.0
"""Processor time that a piece of work may take, and time that it may wait."""
STREAMS: Final = 64
"""Streams of events that one token may follow at once; each reads the database once a second."""
POLLS: Final = 512
"""Workers that may wait for a job under one token."""


class WorkSize(StrEnum):
    """How much processor time a piece of work takes, the most urgent first."""

    SMALL = "small"
    """Some hundredths of a second at most."""
    MEDIUM = "medium"
    """Some tenths of a second."""
    LARGE = "large"
    """A second or more."""


@dataclass(frozen=True, slots=True)
class WorkLimits:
    """Limits on the work of one application."""

    large_waiting: int = LARGE_LIMIT
    """Pieces of large work that may wait."""
    seconds: float = LIMIT_SECONDS
    """Processor time that a piece of work may take, and time that it may wait."""


class WorkLanes:
    """The lanes of one application, and its limits on requests that wait for probes."""

    def __init__(self, limits: WorkLimits | None = None) -> None:
        limits = limits or WorkLimits()
        self.small = Lane(SMALL_LIMIT, limits.seconds, expected_seconds=0.02)
        self.medium = Lane(MEDIUM_LIMIT, limits.seconds, lambda: self.small.busy, 0.2)
        self.large = Lane(limits.large_waiting, limits.seconds, lambda: self.small.busy or self.medium.busy)
        self.streams = CallerQuota(STREAMS)
        self.polls = CallerQuota(POLLS)
        self.durations = Durations()

    def lane(self, size: WorkSize) -> Lane:
        """Return the lane for work of a size."""
        return {WorkSize.SMALL: self.small, WorkSize.MEDIUM: self.medium, WorkSize.LARGE: self.large}[size]

    def of(self, request: Request) -> "Runner":
        """Return the runner of one request."""
        return Runner(self, request)


class Runner:
    """Runs the work of one request in the lane of its size."""

    def __init__(self, lanes: WorkLanes, request: Request) -> None:
        self._lanes = lanes
        self._request = request

    async def __call__(
        self,
        work: Callable[[], Result],
        *,
        size: WorkSize = WorkSize.SMALL,
        kind: Hashable | None = None,
    ) -> Result:
        """Run work and return its result.

        ``kind``: equal for pieces of work that take equally long; ``None`` where that is not known, so that a
        thread does the work.

        Raises:
            Overloaded: too much work waits already, or it waited too long.
            CallerLeft: the caller closed the connection while its work waited or ran.
            TimeLimitReached: the work took longer than it may.
        """
        durations = self._lanes.durations
        if kind is not None and durations.is_short(kind):
            with suppress(LongerThanBefore):
                return durations.done_shortly(kind, work)
        measured = work if kind is None else partial(durations.measured, kind, work)
        return await self._lanes.lane(size).run(measured, self._request)
