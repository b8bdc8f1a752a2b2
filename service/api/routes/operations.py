"""Routes for operating the service: health, metrics, problem types."""

from typing import Annotated, Any, Final

from fastapi import APIRouter, Path
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.responses import Response

from service import __version__
from service.api.dependencies import Counts, Parts
from service.api.errors import ProblemTypeNotFound
from service.api.problems.http_problem_types import PROBLEM_TYPES
from service.application.problems.problem_type import ProblemType
from service.application.schemas.health import Health
from service.application.schemas.problem import ProblemTypeAnswer, ProblemTypeList

router = APIRouter(tags=["operations"])

METRICS: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "Prometheus' text format",
        "content": {"text/plain": {"schema": {"type": "string"}}},
    }
}


@router.get("/livez", summary="Is the process alive")
async def livez() -> Health:
    """Answer while the process runs."""
    return Health(status="ok", version=__version__)


@router.get("/readyz", summary="Can plans be made")
async def readyz(services: Parts) -> Health:
    """Answer once the bundled data is loaded. The Hub is not checked: plans can be made without it."""
    services.snapshot.ids()
    return Health(status="ok", version=__version__)


@router.get("/health", summary="Same as readyz")
async def health(services: Parts) -> Health:
    """Answer as `/readyz` does, under the name that the engine uses."""
    return await readyz(services)


@router.get("/metrics", response_class=Response, responses=METRICS, summary="Counters for Prometheus")
async def get_metrics(metrics: Counts) -> Response:
    """Return all metrics."""
    return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_LATEST)


@router.get("/problems", summary="List the problem types")
async def list_problems() -> ProblemTypeList:
    """List every problem type with its explanation."""
    return ProblemTypeList(problems=[_described(kind) for kind in PROBLEM_TYPES])


@router.get("/problems/{slug}", summary="Explain a problem type")
async def get_problem(
    slug: Annotated[str, Path(max_length=64, description="Name of the problem type")],
) -> ProblemTypeAnswer:
    """Explain the problem type that a problem's `type` names."""
    for kind in PROBLEM_TYPES:
        if kind.slug == slug:
            return _described(kind)
    raise ProblemTypeNotFound(slug)


def _described(kind: ProblemType) -> ProblemTypeAnswer:
    return ProblemTypeAnswer(
        type=kind.type, title=kind.title, status=kind.status, explanation=kind.explanation
    )
