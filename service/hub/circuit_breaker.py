"""Whether the Hub may be asked now: not before a used-up quota is renewed, nor while it fails."""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import dataclass
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
"""Attempts in a row, after which a repository, or the Hub, is taken for failing."""
FAILING_OWNERS: Final = 3
"""Owners whose repositories must fail before it is the Hub that fails: anyone can own one that does."""
TRIAL_SECONDS: Final = 10.0
_OWNERS: Final = 1024
_REPOSITORIES: Final = 1024


@dataclass(slots=True)
class _Rest:
    """When what fails may be asked again."""

    until: float = -inf

    def left(self, now: float) -> float:
        """Return the seconds left; with the first question after them, a trial begins."""
        left = self.until - now
        if left <= 0:
            self.until = now + TRIAL_SECONDS
        return left


class CircuitBreaker:
    """Guards one endpoint, by `clock` (monotonic seconds).

    Quotas are those of a token. Failures are those of a repository, which is then left alone; and those of
    the endpoint where it cannot be connected to, or where repositories of several owners fail and none
    answers. After a rest one request is let through as a trial; the others wait for what becomes of it.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._spent_until: dict[tuple[str, Quota], float] = {}
        self._in_a_row = 0
        """Failures since the last answer."""
        self._failing_owners: set[str] = set()
        """Whose repositories they were, as far as that has to be known."""
        self._hub: _Rest | None = None
        self._failures: OrderedDict[str, int] = OrderedDict()
        """Failures by repository, since its last answer."""
        self._repositories: dict[str, _Rest] = {}

    def check(self, owner: str, quota: Quota, model_id: str) -> None:
        """Let a request through, or refuse it.

        Raises:
            HubRateLimited: the quota of this owner's token is used up.
            HubUnreachable: the Hub failed a moment ago, or for this repository.
        """
        now = self._clock()
        wait = self._spent_until.get((owner, quota), -inf) - now
        if wait > 0:
            raise HubRateLimited(model_id, ceil(wait))
        for rest, reason in (
            # The repository first, so that one that rests does not take the Hub's trial away.
            (self._repositories.get(model_id), "it failed for this repository a moment ago"),
            (self._hub, "it could not be reached a moment ago"),
        ):
            if rest is not None and (left := rest.left(now)) > 0:
                raise HubUnreachable(model_id, reason, retry_after=ceil(left))

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

    def answered(self, model_id: str) -> None:
        """Count an answer for a repository, whatever it says: the Hub works."""
        self._hub = None
        self._in_a_row = 0
        self._failing_owners.clear()
        self._failures.pop(model_id, None)
        self._repositories.pop(model_id, None)

    def failed(self, model_id: str, *, connected: bool = True) -> None:
        """Count a failure to answer for a repository."""
        until = self._clock() + REST_SECONDS
        if not connected:
            self._hub = _Rest(until)
            return
        failures = self._failures.pop(model_id, 0) + 1
        self._failures[model_id] = failures
        if failures >= FAILURES:
            self._repositories[model_id] = _Rest(until)
        if len(self._failures) > _REPOSITORIES:
            forgotten, _ = self._failures.popitem(last=False)
            self._repositories.pop(forgotten, None)
        self._count(model_id.partition("/")[0], until)

    def _count(self, owner: str, until: float) -> None:
        self._in_a_row += 1
        if len(self._failing_owners) < FAILING_OWNERS:
            self._failing_owners.add(owner)
        several = len(self._failing_owners) >= FAILING_OWNERS and self._in_a_row >= FAILURES
        if several or self._hub is not None:
            self._hub = _Rest(until)
