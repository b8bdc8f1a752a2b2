"""Routes of operators: ask for a probe, look at it, follow it, cancel it."""

from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import Annotated, Final

from fastapi import Depends, Header, Path, Query, Request, Response
from fastapi.sse import EventSourceResponse, ServerSentEvent

from service.api.auth import Operator, Reader
from service.api.dependencies import Lanes, Parts, RunnerOf
from service.api.errors import NothingMore
from service.api.responses import json_response
from service.api.routes.route_list import RouteList
from service.application.probes import probe_jobs
from service.application.schemas.probes.probe import (
    ProbeAnswer,
    ProbeBody,
    ProbeList,
    ProbeQuery,
)
from service.application.services import Services
from service.probes.lifecycle import Job

router = RouteList(tags=["probes"])

IDEMPOTENCY_KEY: Final = "Idempotency-Key"
LAST_EVENT_ID: Final = "Last-Event-ID"

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


def _answer(job: Job, services: Services) -> ProbeAnswer:
    return ProbeAnswer.of(job, probe_jobs.waiting_for(job, services.probes))


@router.post("/probes", status_code=HTTPStatus.ACCEPTED, summary="Ask for a measurement on a GPU")
async def create_probe(  # noqa: PLR0913, PLR0917 - one for each parameter
    body: ProbeBody,
    services: Parts,
    operator: Operator,
    request: Request,
    response: Response,
    key: Key = None,
) -> ProbeAnswer:
    """Queue a probe for a worker on a node that has the GPU."""
    job = await probe_jobs.queue_probe(body, key, operator, services)
    response.headers["Location"] = f"{request.app.state.root_path}{request.url.path}/{job.id}"
    return _answer(job, services)


@router.get("/probes", response_model=ProbeList, summary="List probes")
async def list_probes(
    services: Parts, reader: Reader, query: Annotated[ProbeQuery, Query()], run: RunnerOf
) -> Response:
    """List probes, the newest first."""
    del reader
    before = query.after or query.before
    last = None if before is None else await services.probes.jobs.get(before)
    found = await services.probes.jobs.latest(query.state, query.limit + 1, last)
    page, rest = found[: query.limit], found[query.limit :]

    def answer() -> Response:
        following = page[-1].id if rest else None
        return json_response(ProbeList(probes=[_answer(job, services) for job in page], next=following))

    return await run(answer)


@router.get("/probes/{probe_id}", summary="Look at a probe")
async def get_probe(probe_id: ProbeId, services: Parts, reader: Reader) -> ProbeAnswer:
    """Describe a probe: its state, and what it measured."""
    del reader
    return _answer(await services.probes.jobs.get(probe_id), services)


LastEvent = Annotated[
    str | None,
    Header(
        alias=LAST_EVENT_ID,
        max_length=64,
        description="Id of the last event that was received, which browsers send when they connect again: a "
        "probe that has ended is then answered with 204. Left out: the probe is sent",
    ),
]


async def _found(
    probe_id: ProbeId, services: Parts, reader: Reader, lanes: Lanes, last_event: LastEvent = None
) -> AsyncIterator[Job]:
    # Read before the stream begins: after that no problem can be answered any more.
    with lanes.streams.hold("" if reader is None else reader.id):
        job = await services.probes.jobs.get(probe_id)
        if job.ended and last_event is not None:
            raise NothingMore
        yield job


@router.get(
    "/probes/{probe_id}/events",
    response_class=EventSourceResponse,
    responses={HTTPStatus.NO_CONTENT: {"description": "The probe has ended, and its end was sent before"}},
    summary="Follow a probe to its end",
)
async def follow_probe(
    services: Parts, job: Annotated[Job, Depends(_found)]
) -> AsyncIterator[ServerSentEvent]:
    """Send the probe now and after each change, until it has ended or the service stops.

    An event `end` with the same content follows the last one of a probe that has ended: a page closes its
    EventSource then. One that connects again nevertheless is answered with 204, and stops.
    """
    async for changed in probe_jobs.follow_probe(job, services.probes):
        yield ServerSentEvent(event="probe", id=str(changed.updated_at), data=_answer(changed, services))
        if changed.ended:
            yield ServerSentEvent(event="end", id=str(changed.updated_at), data=_answer(changed, services))


@router.delete("/probes/{probe_id}", status_code=HTTPStatus.ACCEPTED, summary="Cancel a probe")
async def cancel_probe(probe_id: ProbeId, services: Parts, operator: Operator) -> ProbeAnswer:
    """Cancel a queued probe at once; its worker learns it from the answer to its next heartbeat."""
    del operator
    return _answer(await probe_jobs.cancel_probe(probe_id, services.probes), services)
