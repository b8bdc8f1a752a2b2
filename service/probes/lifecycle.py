"""The rules by which a job changes: pure functions that return the changed job.

Each lease has a fence, a number that grows with every lease of the job. A message with another fence is
rejected, so that of two workers that both believe to hold a job only one can end it. The rules do not need
synchronized clocks: if a lease ends too early, the job runs twice, but it never gets two results.
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
from service.probes.limits import LEASE_SECONDS, MAX_ATTEMPTS

BEATS_PER_LEASE: Final = 4
QUEUE_SECONDS: Final = 3600
"""How long a job waits in the queue before it expires."""


class LeaseLost(Exception):
    """The lease has expired, was given to another worker, or never existed."""

    def __init__(self, job_id: str) -> None:
        super().__init__(f"the lease of {job_id} is lost: messages sent under it are ignored")


class ResultConflict(Exception):
    """The job already ended with another result."""

    def __init__(self, job_id: str) -> None:
        super().__init__(f"{job_id} already ended with another result")


@dataclass(frozen=True, slots=True)
class Job:
    """One job. Times are seconds since the epoch."""

    id: str
    spec: JobSpec
    state: State
    created_at: float
    updated_at: float
    expires_at: float
    """When a queued job expires, or when the lease of a leased job ends."""
    fence: int = 0
    """Number of leases so far; a lease is identified by its number."""
    worker: str | None = None
    """The worker that holds the job, or held it last."""
    attempts: int = 0
    """Number of leases that count for `MAX_ATTEMPTS`."""
    cancel_requested: bool = False
    phase: str = ""
    """The phase that the worker reported last."""
    result: str | None = None
    """The reported result as JSON."""
    result_digest: str | None = None
    """Digest of the reported result, to recognize a repeated report."""
    reason: str | None = None
    """Why the job ended without a result, or went back to the queue; None before either."""

    def __post_init__(self) -> None:
        if self.state in HELD and self.worker is None:
            raise ValueError(f"{self.id} is {self.state} but has no worker")

    @property
    def ended(self) -> bool:
        """Whether the job is in a final state."""
        return self.state in ENDED


@dataclass(frozen=True, slots=True)
class Lease:
    """A worker's proof that it holds a job."""

    worker: str
    fence: int


@dataclass(frozen=True, slots=True)
class JobEnding:
    """The end of a job as a worker reports it: final state, result as JSON, and digest of the report."""

    state: State
    result: str
    digest: str


Rule = Callable[[Job, float], Job]
"""Takes a job and the time in seconds since the epoch; returns the changed job, or the same if unchanged."""


def _moved(job: Job, state: State, now: float) -> Job:
    if state not in TRANSITIONS[job.state]:
        raise ValueError(f"{job.id} cannot go from {job.state} to {state}")
    return replace(job, state=state, updated_at=now)


def leased(job: Job, worker: str, now: float, seconds: float = LEASE_SECONDS) -> Job:
    """Return a queued job leased to a worker for `seconds`, with a new fence."""
    held = _moved(replace(job, worker=worker), State.LEASED, now)
    return replace(held, fence=job.fence + 1, attempts=job.attempts + 1, expires_at=now + seconds, phase="")


def heartbeat(job: Job, lease: Lease, phase: str, now: float, seconds: float = LEASE_SECONDS) -> Job:
    """Return a job with its lease renewed for `seconds` from now.

    Raises:
        LeaseLost: the lease is not valid (any more).
    """
    _check(job, lease, now)
    alive = job if job.state is State.RUNNING else _moved(job, State.RUNNING, now)
    return replace(alive, phase=phase, updated_at=now, expires_at=now + seconds)


def finished(job: Job, lease: Lease, ending: JobEnding, now: float) -> Job:
    """Return a job ended by its worker. The same ending may be reported any number of times.

    Raises:
        LeaseLost: the lease is not valid (any more).
        ResultConflict: the job already ended with another result.
    """
    if job.result_digest is not None and (job.worker, job.fence) == (lease.worker, lease.fence):
        if job.result_digest == ending.digest:
            return job
        raise ResultConflict(job.id)
    _check(job, lease, now)
    return replace(
        _moved(job, ending.state, now),
        result=ending.result,
        result_digest=ending.digest,
        phase="",
        reason=None,
    )


def cancelled(job: Job, now: float) -> Job:
    """Return a cancelled job. If it is leased, the reply to the next heartbeat stops its worker."""
    if job.ended or job.cancel_requested:
        return job
    if job.state is State.QUEUED:
        return _moved(job, State.CANCELLED, now)
    return replace(job, cancel_requested=True, updated_at=now)


def after_expiry(job: Job, now: float, most_attempts: int = MAX_ATTEMPTS) -> Job:
    """Return a job after its expiry time: queued again, cancelled or expired; unchanged before that time.

    ``most_attempts``: leases of one job after which it is given up.
    """
    if job.ended or now < job.expires_at:
        return job
    if job.state is State.QUEUED:
        reason = f"No worker took it within {QUEUE_SECONDS:,} seconds."
        return replace(_moved(job, State.EXPIRED, now), reason=_with_earlier(job.reason, reason))
    during = f" during phase {job.phase!r}" if job.phase else ""
    lost = f"Worker {job.worker} sent no heartbeat before lease {job.fence} ended{during}."
    if job.cancel_requested:
        return replace(_moved(job, State.CANCELLED, now), reason=lost)
    if job.attempts >= most_attempts:
        reason = f"{lost} Leases of it that ended so: {job.attempts}; it is given up after {most_attempts}."
        return replace(_moved(job, State.EXPIRED, now), reason=reason)
    queued = replace(_moved(job, State.QUEUED, now), phase="", expires_at=now + QUEUE_SECONDS)
    return replace(queued, reason=lost)


def _with_earlier(earlier: str | None, reason: str) -> str:
    return reason if earlier is None else f"{earlier} {reason}"


def _check(job: Job, lease: Lease, now: float) -> None:
    held = job.state in HELD and now < job.expires_at
    if not held or (job.worker, job.fence) != (lease.worker, lease.fence):
        raise LeaseLost(job.id)
