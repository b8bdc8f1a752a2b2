"""WorkersSeen: the workers that asked this service for a job, and which of them could take a job."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from service.probes.job_spec import JobSpec
    from service.probes.offer import Offer

ACTIVE_SECONDS: Final = 90
"""A worker that was seen this long ago at most is there: it asks again after 20 s, or sends heartbeats."""
MOST_WORKERS: Final = 1000
"""Workers that are kept; beyond that the one that was not seen for longest is forgotten."""


@dataclass(frozen=True, slots=True)
class SeenWorker:
    """A worker by its last request for a job. Times are seconds since the epoch."""

    offer: Offer
    """What it said that it can run."""
    first_seen: float
    last_seen: float
    job_id: str | None = None
    """Id of the job that it has; None where it has none."""


class WorkersSeen:
    """The workers that asked this process for a job, and those that other processes announced."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._seen: dict[str, SeenWorker] = {}
        self.on_seen: list[Callable[[SeenWorker], None]] = []
        """Called with each worker that this process has just seen."""
        self.since: Final = clock()
        """When this process began to look."""

    def asks(self, offer: Offer) -> None:
        """Note that a worker asks for a job: it has none."""
        now, known = self._clock(), self._seen.get(offer.worker)
        self._saw(SeenWorker(offer, now if known is None else known.first_seen, now))

    def has(self, worker: str, job_id: str) -> None:
        """Note that a worker has a job, unless it asked for it before this process began."""
        if (known := self._seen.get(worker)) is not None:
            self._saw(replace(known, last_seen=self._clock(), job_id=job_id))

    def learn(self, worker: SeenWorker) -> None:
        """Note a worker as another process saw it, unless this one saw it later."""
        known = self._seen.get(worker.offer.worker)
        if known is None or known.last_seen <= worker.last_seen:
            first = worker.first_seen if known is None else min(known.first_seen, worker.first_seen)
            self._note(replace(worker, first_seen=first))

    def _saw(self, worker: SeenWorker) -> None:
        self._note(worker)
        for each in self.on_seen:
            each(worker)

    def _note(self, worker: SeenWorker) -> None:
        self._seen.pop(worker.offer.worker, None)
        # The last that was seen is last, so the first may be forgotten.
        self._seen[worker.offer.worker] = worker
        if len(self._seen) > MOST_WORKERS:
            del self._seen[next(iter(self._seen))]

    def all(self) -> tuple[SeenWorker, ...]:
        """Return every worker, the one seen last first."""
        return tuple(reversed(self._seen.values()))

    def is_there(self, worker: SeenWorker) -> bool:
        """Whether a worker was seen lately."""
        return self._clock() - worker.last_seen <= ACTIVE_SECONDS

    def able(self, spec: JobSpec) -> tuple[SeenWorker, ...]:
        """Return the workers that could take a job, and were seen lately."""
        return tuple(each for each in self.all() if self.is_there(each) and can_take(each.offer, spec))

    def last_able(self, spec: JobSpec) -> SeenWorker | None:
        """Return the worker that could take a job and was seen last, however long ago."""
        return next((each for each in self.all() if can_take(each.offer, spec)), None)


def can_take(offer: Offer, spec: JobSpec) -> bool:
    """Whether a worker can take a job; the store selects jobs for it by the same rules (`JobStore.lease`)."""
    target = spec.target
    return (
        spec.work.kind in offer.kinds
        and target.gpus <= offer.gpus
        and target.gpu_name in {None, *offer.gpu_names}
        and target.gpu_uuid in {None, *offer.gpu_uuids}
        and target.label in {None, *offer.labels}
        and target.engine_release in {None, *offer.releases}
    )
