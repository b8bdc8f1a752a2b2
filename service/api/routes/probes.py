"""Probes: asked for, looked at, followed, cancelled."""

from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Header, Path, Query, Response
from fastapi.sse import EventSourceResponse, ServerSentEvent

from service.api.auth import Operator, Reader
from service.api.dependencies import AllTurns, Parts, TurnOf
from service.api.responses import json_response
from service.application.probe_jobs import spec_of
from service.application.schemas.probe import (
    ProbeAnswer,
    ProbeBody,
    ProbeList,
    ProbeQuery,
)
from service.calibration.measurement import digest
from service.probes.lifecycle import Job

router = APIRouter(tags=["probes"])

IDEMPOTENCY_KEY: Final = "Idempotency-Key"
POLL_SECONDS: Final = 1.0
"""How long a change by another replica may go unseen."""

ProbeId = Annotated[str, Path(pattern=r"^[0-9a-f]{32}$", max_length=32, description="Id of the probe")]
Key = Annotated[
    str | None,
    Header(
        alias=IDEMPOTENCY_KEY,
        min_length=1,
        max_length=255,
        pattern=r"^[!-~]+$",
        description="A key of your choice. Requests with the same key and the same body make one probe. "
        "Left out: every request makes a probe",
    ),
]


@router.post("/probes", status_code=HTTPStatus.ACCEPTED, summary="Ask for a measurement on a GPU")
async def create_probe(
    body: ProbeBody, services: Parts, operator: Operator, response: Response, key: Key = None
) -> ProbeAnswer:
    """Queue a probe for a worker on a node that has the GPU."""
    del operator
    spec = await spec_of(body, services)
    job, new = await services.probes.jobs.add(spec, key, digest(body.model_dump(mode="json")))
    if new:
        services.probes.job_events.ring()
    response.headers["Location"] = f"/probes/{job.id}"
    return ProbeAnswer.of(job)


@router.get("/probes", response_model=ProbeList, summary="List probes")
async def list_probes(
    services: Parts, reader: Reader, query: Annotated[ProbeQuery, Query()], turn: TurnOf
) -> Response:
    """List probes, the newest first."""
    del reader
    last = None if query.before is None else await services.probes.jobs.get(query.before)
    found = await services.probes.jobs.latest(query.state, query.limit, last)
    return await turn(lambda: json_response(ProbeList(probes=[ProbeAnswer.of(job) for job in found])))


@router.get("/probes/{probe_id}", summary="Look at a probe")
async def get_probe(probe_id: ProbeId, services: Parts, reader: Reader) -> ProbeAnswer:
    """Say where a probe stands, and what it measured."""
    del reader
    return ProbeAnswer.of(await services.probes.jobs.get(probe_id))


async def _found(probe_id: ProbeId, services: Parts, reader: Reader, turns: AllTurns) -> AsyncIterator[Job]:
    # Asked before the stream begins, while there still can be a problem in place of it.
    with turns.streams.taken("" if reader is None else reader.id):
        yield await services.probes.jobs.get(probe_id)


@router.get(
    "/probes/{probe_id}/events", response_class=EventSourceResponse, summary="Follow a probe to its end"
)
async def follow_probe(
    services: Parts, job: Annotated[Job, Depends(_found)]
) -> AsyncIterator[ServerSentEvent]:
    """Send the probe whenever it changes; the last event is its end, unless the service ends before it."""
    specified = None
    while True:
        if (current := (job.state, job.phase, job.fence, job.cancel_requested)) != specified:
            specified = current
            yield ServerSentEvent(event="probe", data=ProbeAnswer.of(job))
        if job.ended or services.probes.job_events.closed:
            return
        await services.probes.job_events.heard(POLL_SECONDS)
        job = await services.probes.jobs.get(job.id)


@router.delete("/probes/{probe_id}", status_code=HTTPStatus.ACCEPTED, summary="Cancel a probe")
async def cancel_probe(probe_id: ProbeId, services: Parts, operator: Operator) -> ProbeAnswer:
    """Cancel a probe in the queue at once; a worker that has it is told with its next heartbeat."""
    del operator
    job = await services.probes.jobs.cancel(probe_id)
    services.probes.job_events.ring()
    return ProbeAnswer.of(job)
