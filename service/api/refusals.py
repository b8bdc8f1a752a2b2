"""Reasons why the server closes or refuses a connection, and the log of what is refused."""

from collections import Counter
from collections.abc import Callable
from enum import StrEnum
from time import monotonic
from typing import Final

import structlog

LOG_SECONDS: Final = 10
"""Refusals of so many seconds share one line of the log: thousands may come at once."""

_log: Final = structlog.stdlib.get_logger("dryserve.refusals")


class ConnectionRefusal(StrEnum):
    """Why a connection was closed or refused."""

    TOO_MANY = "too_many"
    """There were too many, and none of them was idle."""
    DISPLACED = "displaced"
    """There were too many, and this one had been idle for longest."""
    SLOW_HEAD = "slow_head"
    """The head of a request did not arrive in time, or none was sent."""
    SLOW_BODY = "slow_body"
    """The body of a request did not arrive in time."""
    SLOW_READER = "slow_reader"
    """The answer was not read in time."""


class RefusalLog:
    """Logs refusals: the first at once, and all others of a period together with the next after it."""

    def __init__(self, event: str = "connections refused", clock: Callable[[], float] = monotonic) -> None:
        self._event = event
        self._clock = clock
        self._since: Counter[str] = Counter()
        self._logged_at: float | None = None

    def __call__(self, reason: str) -> None:
        """Note a refusal."""
        self._since[str(reason)] += 1
        now = self._clock()
        if self._logged_at is not None and now - self._logged_at < LOG_SECONDS:
            return
        _log.warning(self._event, **self._since)
        self._since.clear()
        self._logged_at = now
