"""JobCounts: what this process knows of the queue without asking the database."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from service.probes.job_state import State

SEEN_SECONDS: Final = 300


@dataclass(frozen=True, slots=True)
class Census:
    """How many jobs there are."""

    by_state: Mapping[State, int] = field(default_factory=dict)
    oldest_queued_seconds: float = 0.0
    """Time since the oldest queued job was queued, or queued again; 0 without one."""


class JobCounts:
    """The jobs as they were last counted, the workers that asked for one, and who hears of lost leases."""

    def __init__(self) -> None:
        self.census = Census()
        self.on_lease_lost: list[Callable[[], None]] = []
        self._asked: dict[str, float] = {}

    def note_worker(self, name: str) -> None:
        """Note that a worker asks for a job."""
        self._asked[name] = time.monotonic()

    def workers_seen(self) -> int:
        """Return how many workers asked this replica for a job within `SEEN_SECONDS`."""
        since = time.monotonic() - SEEN_SECONDS
        self._asked = {name: at for name, at in self._asked.items() if at > since}
        return len(self._asked)

    def lose_lease(self) -> None:
        """Tell of a lease that ended without a heartbeat."""
        for each in self.on_lease_lost:
            each()
