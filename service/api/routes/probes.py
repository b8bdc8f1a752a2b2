"""Routes of operators: ask for a probe, look at it, follow it, cancel it."""

from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Header, Path, Query, Response
from fastapi.sse import EventSourceResponse, ServerSentEvent

from service.api.auth import Operator, Reader
from service.api.dependencies import Lanes, Parts, RunnerOf
from service.api.responses import json_response
from service.application import probe_jobs
from service.application.schemas.probe import (
    ProbeAnswer,
    ProbeBody,
    ProbeList,
    ProbeQuery,
)
from service.probes.lifecycle import Job

router = APIRouter(tags=["probes"])

IDEMPOTENCY_KEY: Final = "Idempotency-Key"

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
    job = await probe_jobs.queue_probe(body, key, services)
    response.headers["Location"] = f"/probes/{job.id}"
    return ProbeAnswer.of(job)


@router.get("/probes", response_model=ProbeList, summary="List probes")
async def list_probes(
    services: Parts, reader: Reader, query: Annotated[ProbeQuery, Query()], run: RunnerOf
) -> Response:
    """List probes, the newest first."""
    del reader
    last = None if query.before is None else await services.probes.jobs.get(query.before)
    found = await services.probes.jobs.latest(query.state, query.limit, last)
    return await run(lambda: json_response(ProbeList(probes=[ProbeAnswer.of(job) for job in found])))


@router.get("/probes/{probe_id}", summary="Look at a probe")
async def get_probe(probe_id: ProbeId, services: Parts, reader: Reader) -> ProbeAnswer:
    """Describe a probe: its state, and what it measured."""
    del reader
    return ProbeAnswer.of(await services.probes.jobs.get(probe_id))


async def _found(probe_id: ProbeId, services: Parts, reader: Reader, lanes: Lanes) -> AsyncIterator[Job]:
    # Read before the stream begins: after that no problem can be answered any more.
    with lanes.streams.hold("" if reader is None else reader.id):
        yield await services.probes.jobs.get(probe_id)


@router.get(
    "/probes/{probe_id}/events", response_class=EventSourceResponse, summary="Follow a probe to its end"
)
async def follow_probe(
    services: Parts, job: Annotated[Job, Depends(_found)]
) -> AsyncIterator[ServerSentEvent]:
    """Send the probe now and after each change, until it has ended or the service stops."""
    async for changed in probe_jobs.follow_probe(job, services.probes):
        yield ServerSentEvent(event="probe", data=ProbeAnswer.of(changed))


@router.delete("/probes/{probe_id}", status_code=HTTPStatus.ACCEPTED, summary="Cancel a probe")
async def cancel_probe(probe_id: ProbeId, services: Parts, operator: Operator) -> ProbeAnswer:
    """Cancel a queued probe at once; its worker learns it from the answer to its next heartbeat."""
    del operator
    return ProbeAnswer.of(await probe_jobs.cancel_probe(probe_id, services.probes))
