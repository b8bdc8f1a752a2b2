"""Routes for operating the service: health and metrics."""

from typing import Any, Final

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import Response

from service import __version__
from service.api.dependencies import Counts, Parts
from service.api.routes.route_list import RouteList
from service.application.schemas.answers.health import Health
from service.application.services import Services
from service.store.errors import SchemaMismatch

router = RouteList(tags=["operations"])

METRICS: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "Prometheus' text format",
        "content": {"text/plain": {"schema": {"type": "string"}}},
    }
}


@router.get("/livez", summary="Is the process alive")
async def livez(services: Parts) -> Health:
    """Answer while the process runs."""
    return _healthy(services)


@router.get("/readyz", summary="Can plans be made")
async def readyz(services: Parts) -> Health:
    """Answer once the bundled data is loaded. The Hub is not checked: plans can be made without it.

    The database is not asked either, but an answer of 503 says that its tables do not suit this version.
    """
    services.snapshot.ids()
    if isinstance(services.probes.database.fault, SchemaMismatch):
        raise services.probes.database.fault
    return _healthy(services)


@router.get("/health", summary="Same as readyz")
async def health(services: Parts) -> Health:
    """Answer as `/readyz` does, under the name that the engine uses."""
    return await readyz(services)


@router.get("/metrics", response_class=Response, responses=METRICS, summary="Counters for Prometheus")
async def get_metrics(metrics: Counts) -> Response:
    """Return all metrics."""
    return Response(await metrics.exposition(), media_type=CONTENT_TYPE_LATEST)


def _healthy(services: Services) -> Health:
    return Health(status="ok", database=services.probes.database.condition, version=__version__)
