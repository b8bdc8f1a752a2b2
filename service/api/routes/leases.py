"""The workers' side: take a job, say that one is alive, hand the result in."""

from http import HTTPStatus
from time import monotonic, time
from typing import Any, Final

from fastapi import APIRouter, Request, Response

from service.api.auth import Worker
from service.api.dependencies import AllTurns, Parts
from service.api.routes.probes import POLL_SECONDS, ProbeId
from service.application.probe_jobs import ending_of
from service.application.schemas.lease import (
    HeartbeatAnswer,
    HeartbeatBody,
    LeaseAnswer,
    LeaseBody,
    ResultAnswer,
    ResultBody,
)
from service.application.services import Services
from service.probes.job_spec import ProbeKind
from service.probes.lifecycle import BEATS_PER_LEASE, Job, Lease
from service.serialization import SPEC
from service.store.jobs import Offer
from service.store.tokens import Token

router = APIRouter(tags=["workers"])

NONE_NOW: Final[dict[int | str, dict[str, Any]]] = {
    HTTPStatus.NO_CONTENT: {"description": "Nothing to do for now"}
}


@router.post("/leases", response_model=LeaseAnswer, responses=NONE_NOW, summary="Take a job")
async def create_lease(
    body: LeaseBody, services: Parts, worker: Worker, request: Request, turns: AllTurns
) -> LeaseAnswer | Response:
    """Hand a job over to a worker that can run it, waiting for one for a while."""
    offer = Offer(
        worker=_name(worker, body.node),
        kinds=tuple(map(ProbeKind, body.kinds)),
        gpu_names=tuple(body.gpu_names),
        gpu_uuids=tuple(body.gpu_uuids),
        labels=tuple(body.labels),
        releases=tuple(body.releases),
        gpus=body.gpus,
    )
    with turns.polls.taken(worker.id):
        job = await _waited_for(offer, body.wait_seconds, services, request)
    if job is None:
        return Response(status_code=HTTPStatus.NO_CONTENT)
    services.probes.job_events.ring()
    return LeaseAnswer(
        probe_id=job.id,
        fence=job.fence,
        ttl_seconds=services.probes.jobs.lease_seconds,
        heartbeat_seconds=services.probes.jobs.lease_seconds / BEATS_PER_LEASE,
        spec=SPEC.dump_python(job.spec, mode="json"),
    )


async def _waited_for(offer: Offer, seconds: float, services: Services, request: Request) -> Job | None:
    """Return a job for a worker, or ``None`` where there was none in time or the worker is gone."""
    until = monotonic() + seconds
    while (job := await services.probes.jobs.lease(offer)) is None:
        left = until - monotonic()
        if left <= 0:
            return None
        await services.probes.job_events.heard(min(left, POLL_SECONDS))
        if services.probes.job_events.closed or await request.is_disconnected():
            # A job that it were given would lie there until its lease ran out.
            return None
    return job


@router.post("/probes/{probe_id}/heartbeat", summary="Prolong a lease")
async def heartbeat(
    probe_id: ProbeId, body: HeartbeatBody, services: Parts, worker: Worker
) -> HeartbeatAnswer:
    """Say that a worker is alive, and hear whether its job is still wanted."""
    lease = Lease(_name(worker, body.node), body.fence)
    job = await services.probes.jobs.heartbeat(probe_id, lease, body.phase)
    services.probes.job_events.ring()
    return HeartbeatAnswer(ttl_seconds=services.probes.jobs.lease_seconds, cancel=job.cancel_requested)


@router.put("/probes/{probe_id}/result", summary="Hand a result in")
async def put_result(probe_id: ProbeId, body: ResultBody, services: Parts, worker: Worker) -> ResultAnswer:
    """Keep a result; the same one may come any number of times, another one is refused."""
    jobs = services.probes.jobs
    ending = ending_of(await jobs.get(probe_id), body.node, body.result, worker.id, time())
    job = await jobs.finish(probe_id, Lease(_name(worker, body.node), body.fence), ending)
    services.probes.job_events.ring()
    await services.probes.learned.refresh()
    return ResultAnswer(state=job.state, digest=ending.digest)


def _name(worker: Token, node: str) -> str:
    """Return who a worker is: a token may serve the nodes of one pool."""
    return f"{worker.name}/{node}"
