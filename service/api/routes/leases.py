"""Routes of workers: take a job, prolong its lease, hand in its result."""

from http import HTTPStatus
from typing import Any, Final

from fastapi import Request, Response

from service.api.auth import Worker
from service.api.dependencies import Lanes, Parts
from service.api.routes.probes import ProbeId
from service.api.routes.route_list import RouteList
from service.application.probes.leases import finish_job, prolong_lease, take_job
from service.application.schemas.probes.lease import (
    HeartbeatAnswer,
    HeartbeatBody,
    LeaseAnswer,
    LeaseBody,
    ResultAnswer,
    ResultBody,
)
from service.probes.lifecycle import BEATS_PER_LEASE
from service.serialization import SPEC

router = RouteList(tags=["workers"])

NONE_NOW: Final[dict[int | str, dict[str, Any]]] = {
    HTTPStatus.NO_CONTENT: {"description": "There is no job for this worker now"}
}


@router.post("/leases", response_model=LeaseAnswer, responses=NONE_NOW, summary="Take a job")
async def create_lease(
    body: LeaseBody, services: Parts, worker: Worker, request: Request, lanes: Lanes
) -> LeaseAnswer | Response:
    """Lease a job to a worker that can run it, waiting for one for at most `wait_seconds`."""
    with lanes.polls.hold(worker.id):
        job = await take_job(body, worker, services.probes, request.is_disconnected)
    if job is None:
        return Response(status_code=HTTPStatus.NO_CONTENT)
    lease_seconds = services.probes.jobs.lease_seconds
    return LeaseAnswer(
        probe_id=job.id,
        fence=job.fence,
        ttl_seconds=lease_seconds,
        heartbeat_seconds=lease_seconds / BEATS_PER_LEASE,
        spec=SPEC.dump_python(job.spec, mode="json", exclude={"question"}),
    )


@router.post("/probes/{probe_id}/heartbeat", summary="Prolong a lease")
async def heartbeat(
    probe_id: ProbeId, body: HeartbeatBody, services: Parts, worker: Worker
) -> HeartbeatAnswer:
    """Prolong a worker's lease, and say whether its job is still wanted."""
    job = await prolong_lease(probe_id, body, worker, services.probes)
    return HeartbeatAnswer(ttl_seconds=services.probes.jobs.lease_seconds, cancel=job.cancel_requested)


@router.put("/probes/{probe_id}/result", summary="Hand in a result")
async def put_result(probe_id: ProbeId, body: ResultBody, services: Parts, worker: Worker) -> ResultAnswer:
    """Store a result. The same result may be sent any number of times; another one is refused."""
    return await finish_job(probe_id, body, worker, services.probes)
