"""Blocks requests to the Hub while a quota is used up, or while the Hub or a repository fails."""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import dataclass
from math import ceil, inf
from typing import TYPE_CHECKING, Final

from service.hub.errors import HubRateLimited, HubUnreachable
from service.hub.transport.requests import Quota

if TYPE_CHECKING:
    from collections.abc import Callable

OPEN_SECONDS: Final = 60.0
"""How long the circuit stays open after failures, or after a 429 that does not say how long to wait."""
LONGEST_WAIT_SECONDS: Final = 3600
"""A longer wait is cut to this: the Hub renews its quotas every five minutes."""
FAILURES: Final = 6
"""Consecutive failures after which the circuit of a repository, or of the Hub, opens."""
FAILING_OWNERS: Final = 3
"""Owners whose repositories must fail before the Hub's circuit opens.

Anyone can own a repository that fails, so failures of one owner say nothing about the Hub.
"""
TRIAL_SECONDS: Final = 10.0
"""How long other requests wait for the result of the trial request."""
_OWNERS: Final = 1024
_REPOSITORIES: Final = 1024


@dataclass(slots=True)
class _OpenCircuit:
    """An open circuit: requests are blocked until a moment, then one trial request may pass."""

    until: float = -inf

    def seconds_left(self, now: float) -> float:
        """Return the seconds until requests may pass; at or below zero the caller becomes the trial."""
        left = self.until - now
        if left <= 0:
            self.until = now + TRIAL_SECONDS
        return left


class CircuitBreaker:
    """Decides whether a request to one endpoint may be sent; `clock` gives monotonic seconds.

    - Quotas belong to a token: when one is used up, its owner's requests are blocked until it is renewed.
    - After `FAILURES` consecutive failures of a repository, requests for that repository are blocked.
    - All requests are blocked if the endpoint cannot be connected to, or if repositories of several owners
      fail one after another and none answers.

    After `OPEN_SECONDS` one trial request may pass. Its success closes the circuit, its failure opens it
    again; other requests are blocked until its result is known, for at most `TRIAL_SECONDS`.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._blocked_until: dict[tuple[str, Quota], float] = {}
        self._consecutive_failures = 0
        """Failures since the last success."""
        self._failing_owners: set[str] = set()
        """Owners of the repositories that failed since then; at most `FAILING_OWNERS` are recorded."""
        self._hub: _OpenCircuit | None = None
        self._failures: OrderedDict[str, int] = OrderedDict()
        """Failures of each repository since its last success."""
        self._repositories: dict[str, _OpenCircuit] = {}

    def check(self, owner: str, quota: Quota, model_id: str) -> None:
        """Return if a request may be sent.

        Raises:
            HubRateLimited: the quota of this owner's token is used up.
            HubUnreachable: the circuit of the repository or of the Hub is open; `retry_after` in seconds.
        """
        now = self._clock()
        wait = self._blocked_until.get((owner, quota), -inf) - now
        if wait > 0:
            raise HubRateLimited(model_id, ceil(wait))
        for circuit, reason in (
            # The repository first: a request that its circuit blocks must not use up the Hub's trial.
            (self._repositories.get(model_id), "it recently failed for this repository"),
            (self._hub, "it recently could not be reached"),
        ):
            if circuit is not None and (left := circuit.seconds_left(now)) > 0:
                raise HubUnreachable(model_id, reason, retry_after=ceil(left))

    def record_used_up_quota(self, owner: str, quota: Quota, seconds: int) -> None:
        """Block requests that count against an owner's quota for `seconds`, until it is renewed."""
        now = self._clock()
        if len(self._blocked_until) >= _OWNERS:
            self._blocked_until = {key: until for key, until in self._blocked_until.items() if until > now}
        self._blocked_until[owner, quota] = now + min(seconds, LONGEST_WAIT_SECONDS)

    def record_rate_limit(self, owner: str, seconds: int | None) -> int:
        """Block all requests of an owner after a 429, and return for how many seconds.

        `seconds` is the wait that the Hub asks for; None if it did not say.
        """
        wait = ceil(OPEN_SECONDS) if seconds is None else min(seconds, LONGEST_WAIT_SECONDS)
        for quota in Quota:
            self.record_used_up_quota(owner, quota, wait)
        return wait

    def record_success(self, model_id: str) -> None:
        """Record a success: the Hub answered for a repository, whatever the answer says."""
        self._hub = None
        self._consecutive_failures = 0
        self._failing_owners.clear()
        self._failures.pop(model_id, None)
        self._repositories.pop(model_id, None)

    def record_failure(self, model_id: str, *, connected: bool = True) -> None:
        """Record a failure for a repository; `connected` False where no connection could be made."""
        until = self._clock() + OPEN_SECONDS
        if not connected:
            self._hub = _OpenCircuit(until)
            return
        failures = self._failures.pop(model_id, 0) + 1
        self._failures[model_id] = failures
        if failures >= FAILURES:
            self._repositories[model_id] = _OpenCircuit(until)
        if len(self._failures) > _REPOSITORIES:
            forgotten, _ = self._failures.popitem(last=False)
            self._repositories.pop(forgotten, None)
        self._count(model_id.partition("/")[0], until)

    def _count(self, owner: str, until: float) -> None:
        self._consecutive_failures += 1
        if len(self._failing_owners) < FAILING_OWNERS:
            self._failing_owners.add(owner)
        several = len(self._failing_owners) >= FAILING_OWNERS and self._consecutive_failures >= FAILURES
        if several or self._hub is not None:
            self._hub = _OpenCircuit(until)
