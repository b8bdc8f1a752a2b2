"""Whether the Hub may be asked now: not before a used-up quota is renewed, nor while it fails."""

from __future__ import annotations

import time
from math import ceil, inf
from typing import TYPE_CHECKING, Final

from service.hub.errors import HubRateLimited, HubUnreachable
from service.hub.requests import Quota

if TYPE_CHECKING:
    from collections.abc import Callable

REST_SECONDS: Final = 60.0
"""How long a Hub that fails is left alone, and one that does not say when its quota is renewed."""
LONGEST_WAIT_SECONDS: Final = 3600
"""The Hub's windows are of five minutes; a longer wait than this is not believed."""
FAILURES: Final = 6
"""Attempts in a row, after which the Hub is taken for failing; one that cannot be connected to is at once."""
TRIAL_SECONDS: Final = 10.0
_OWNERS: Final = 1024


class CircuitBreaker:
    """Guards one endpoint, by `clock` (monotonic seconds).

    Quotas are those of a token, failures those of the endpoint. After a rest one request is let through as a
    trial; the others wait for what becomes of it.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._spent_until: dict[tuple[str, Quota], float] = {}
        self._failures = 0
        self._closed_until = -inf

    def check(self, owner: str, quota: Quota, model_id: str) -> None:
        """Let a request through, or refuse it.

        Raises:
            HubRateLimited: the quota of this owner's token is used up.
            HubUnreachable: the Hub failed a moment ago.
        """
        now = self._clock()
        wait = self._spent_until.get((owner, quota), -inf) - now
        if wait > 0:
            raise HubRateLimited(model_id, ceil(wait))
        if self._failures < FAILURES:
            return
        rest = self._closed_until - now
        if rest > 0:
            reason = "it could not be reached a moment ago"
            raise HubUnreachable(model_id, reason, retry_after=ceil(rest))
        self._closed_until = now + TRIAL_SECONDS

    def spent(self, owner: str, quota: Quota, seconds: int) -> None:
        """Count nothing more against an owner's quota until it is renewed."""
        now = self._clock()
        if len(self._spent_until) >= _OWNERS:
            self._spent_until = {key: until for key, until in self._spent_until.items() if until > now}
        self._spent_until[owner, quota] = now + min(seconds, LONGEST_WAIT_SECONDS)

    def refused(self, owner: str, seconds: int | None) -> int:
        """Ask nothing at all for an owner whom the Hub refuses; return the seconds until it may be asked."""
        wait = ceil(REST_SECONDS) if seconds is None else min(seconds, LONGEST_WAIT_SECONDS)
        for quota in Quota:
            self.spent(owner, quota, wait)
        return wait

    def answered(self) -> None:
        """Count an answer, whatever it says: the Hub works."""
        self._failures = 0
        self._closed_until = -inf

    def failed(self, *, connected: bool = True) -> None:
        """Count a failure of the Hub itself."""
        self._failures = self._failures + 1 if connected else FAILURES
        if self._failures >= FAILURES:
            self._closed_until = self._clock() + REST_SECONDS
