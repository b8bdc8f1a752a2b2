"""The life of a job: pure rules from one value of it to the next.

Whoever holds a lease is told its fence, a number that grows with every lease of the job. What comes with
another fence is refused, so that two workers that both believe to hold a job cannot both end it. No rule
relies on clocks that agree: a lease that ends early costs a second run, never a second result.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from service.probes.job_spec import JobSpec
from service.probes.job_state import (
    ENDED,
    HELD,
    TRANSITIONS,
    State,
)

LEASE_SECONDS: Final = 60
BEATS_PER_LEASE: Final = 4
MAX_ATTEMPTS: Final = 2
"""Leases of one job; a worker that is lost twice is not lost by chance."""
QUEUE_SECONDS: Final = 3600


class LeaseLost(Exception):
    """The lease is another worker's by now, has run out, or never was."""

    def __init__(self, job_id: str) -> None:
        super().__init__(f"the lease of {job_id} is lost: what is sent under it counts for nothing")


class ResultConflict(Exception):
    """The job already ended with another result."""

    def __init__(self, job_id: str) -> None:
        super().__init__(f"{job_id} already ended, and with another result")


@dataclass(frozen=True, slots=True)
class Job:
    """One job. Times are seconds since the epoch."""

    id: str
    spec: JobSpec
    state: State
    created_at: float
    updated_at: float
    expires_at: float
    """When it is given up in the queue; while it is held, when the lease ends."""
    fence: int = 0
    """Leases so far; the last one's number is its token."""
    worker: str | None = None
    """Who holds it, or held it last."""
    attempts: int = 0
    cancel_requested: bool = False
    phase: str = ""
    """What the worker said last."""
    result: str | None = None
    """The result as JSON, as it came."""
    result_digest: str | None = None

    def __post_init__(self) -> None:
        if self.state in HELD and self.worker is None:
            raise ValueError(f"{self.id} is {self.state} by nobody")

    @property
    def ended(self) -> bool:
        """Whether nothing more happens to it."""
        return self.state in ENDED


@dataclass(frozen=True, slots=True)
class Lease:
    """What a worker shows for a job."""

    worker: str
    fence: int


@dataclass(frozen=True, slots=True)
class JobEnding:
    """How a worker says that a job ended."""

    state: State
    result: str
    digest: str


Rule = Callable[[Job, float], Job]
"""From a job and the time to what becomes of it; the same value where nothing does."""


def _moved(job: Job, state: State, now: float) -> Job:
    if state not in TRANSITIONS[job.state]:
        raise ValueError(f"{job.id} cannot go from {job.state} to {state}")
    return replace(job, state=state, updated_at=now)


def leased(job: Job, worker: str, now: float, seconds: float = LEASE_SECONDS) -> Job:
    """Return a queued job in the hands of a worker for so many seconds, under a new fence."""
    held = _moved(replace(job, worker=worker), State.LEASED, now)
    return replace(held, fence=job.fence + 1, attempts=job.attempts + 1, expires_at=now + seconds, phase="")


def heartbeat(job: Job, lease: Lease, phase: str, now: float, seconds: float = LEASE_SECONDS) -> Job:
    """Return a job whose worker is alive, its lease prolonged.

    Raises:
        LeaseLost: the job is not this worker's (any more).
    """
    _check(job, lease, now)
    alive = job if job.state is State.RUNNING else _moved(job, State.RUNNING, now)
    return replace(alive, phase=phase, updated_at=now, expires_at=now + seconds)


def finished(job: Job, lease: Lease, ending: JobEnding, now: float) -> Job:
    """Return a job that its worker ended; the same ending may be told any number of times.

    Raises:
        LeaseLost: the job is not this worker's (any more).
        ResultConflict: it ended with another result.
    """
    if job.result_digest is not None and (job.worker, job.fence) == (lease.worker, lease.fence):
        if job.result_digest == ending.digest:
            return job
        raise ResultConflict(job.id)
    _check(job, lease, now)
    return replace(
        _moved(job, ending.state, now), result=ending.result, result_digest=ending.digest, phase=""
    )


def cancelled(job: Job, now: float) -> Job:
    """Return a job that nobody wants any more; who holds it is told with its next heartbeat."""
    if job.ended or job.cancel_requested:
        return job
    if job.state is State.QUEUED:
        return _moved(job, State.CANCELLED, now)
    return replace(job, cancel_requested=True, updated_at=now)


def swept(job: Job, now: float) -> Job:
    """Return a job as its times have it: back in the queue, or given up, once they have run out."""
    if job.ended or now < job.expires_at:
        return job
    if job.state is State.QUEUED:
        return _moved(job, State.EXPIRED, now)
    if job.cancel_requested:
        return _moved(job, State.CANCELLED, now)
    if job.attempts >= MAX_ATTEMPTS:
        return _moved(job, State.EXPIRED, now)
    return replace(_moved(job, State.QUEUED, now), phase="", expires_at=now + QUEUE_SECONDS)


def _check(job: Job, lease: Lease, now: float) -> None:
    held = job.state in HELD and now < job.expires_at
    if not held or (job.worker, job.fence) != (lease.worker, lease.fence):
        raise LeaseLost(job.id)
