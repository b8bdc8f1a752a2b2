"""Routes about workers, for people."""

from datetime import UTC, datetime

from service.api.auth import Reader
from service.api.dependencies import Parts
from service.api.routes.route_list import RouteList
from service.application.schemas.probes.workers import WorkerAnswer, WorkerList

router = RouteList(tags=["workers"])


@router.get("/workers", summary="List workers")
async def list_workers(services: Parts, reader: Reader) -> WorkerList:
    """List the workers that asked this service for a job since it started, and what each can run."""
    del reader
    seen = services.probes.workers
    return WorkerList(
        since=datetime.fromtimestamp(seen.since, UTC),
        workers=[WorkerAnswer.of(each, active=seen.is_there(each)) for each in seen.all()],
    )
