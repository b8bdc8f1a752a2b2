"""What workers do with jobs: take one, say that they are alive, hand in the result."""

from collections.abc import Awaitable, Callable
from time import monotonic, time

from service.application.job_events import POLL_SECONDS
from service.application.probes.probe_jobs import ending_of
from service.application.schemas.probes.lease import HeartbeatBody, LeaseBody, ResultAnswer, ResultBody
from service.application.services import Probes
from service.probes.job_spec import ProbeKind
from service.probes.lifecycle import Job, Lease
from service.probes.offer import Offer
from service.store.token import Token


async def take_job(
    body: LeaseBody, worker: Token, probes: Probes, has_left: Callable[[], Awaitable[bool]]
) -> Job | None:
    """Lease a job to a worker that can run it, waiting for one if it asks for that.

    ``has_left``: whether the worker is gone; a job given to it would be blocked until its lease ends.

    Returns:
        The job; ``None`` where there was none in time, the worker is gone or the service shuts down.

    Raises:
        StoreUnavailable: the database cannot be used.
    """
    offer = Offer(
        worker=_name(worker, body.node),
        kinds=tuple(map(ProbeKind, body.kinds)),
        gpu_names=tuple(body.gpu_names),
        gpu_uuids=tuple(body.gpu_uuids),
        labels=tuple(body.labels),
        releases=tuple(body.releases),
        gpus=body.gpus,
    )
    probes.workers.asks(offer)
    until = monotonic() + body.wait_seconds
    while (job := await probes.jobs.lease(offer)) is None:
        left = until - monotonic()
        if left <= 0:
            probes.workers.asks(offer)
            return None
        await probes.job_events.wait(min(left, POLL_SECONDS))
        if probes.job_events.closed or await has_left():
            return None
    probes.workers.has(offer.worker, job.id)
    probes.job_events.notify()
    return job


async def prolong_lease(probe_id: str, body: HeartbeatBody, worker: Token, probes: Probes) -> Job:
    """Prolong a worker's lease of a job, and store what the worker does now.

    Raises:
        JobNotFound: there is no such job.
        LeaseLost: the lease has ended, or the job is another worker's by now.
        StoreUnavailable: the database cannot be used.
    """
    lease = Lease(_name(worker, body.node), body.fence)
    job = await probes.jobs.heartbeat(probe_id, lease, body.phase)
    probes.workers.has(lease.worker, probe_id)
    probes.job_events.notify()
    return job


async def finish_job(probe_id: str, body: ResultBody, worker: Token, probes: Probes) -> ResultAnswer:
    """Store a worker's result; the same result may be handed in any number of times.

    Raises:
        JobNotFound: there is no such job.
        LeaseLost: the lease has ended, or the job is another worker's by now.
        ResultConflict: the job ended with another result.
        InvalidRequest: a measurement is missing, or came where none is expected; the result is too large.
        StoreUnavailable: the database cannot be used.
    """
    ending = ending_of(await probes.jobs.get(probe_id), body.node, body.result, worker.id, time())
    job = await probes.jobs.finish(probe_id, Lease(_name(worker, body.node), body.fence), ending)
    probes.job_events.notify()
    await probes.learned.refresh()
    return ResultAnswer(state=job.state, digest=ending.digest)


def _name(worker: Token, node: str) -> str:
    """Return the name of a worker: one token may serve several nodes."""
    return f"{worker.name}/{node}"
