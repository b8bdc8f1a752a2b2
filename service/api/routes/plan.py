"""Plans, asked for by body or by query string."""

from collections import Counter
from dataclasses import replace
from typing import Annotated, Any, Final

from fastapi import APIRouter, Header, Query
from starlette.responses import Response

from service.advisor.plan_request import PlanRequest
from service.advisor.plan_types import Plan
from service.api.dependencies import CallersParts, Counts, RunnerOf
from service.api.metrics import Metrics
from service.api.responses import (
    JSON,
    TEXT,
    json_response,
    negotiated_format,
    text_response,
)
from service.api.work_lanes import Runner
from service.application.plan_requests import answer_plan_request, plan_request, read_plan_body
from service.application.schemas.brief import BriefPlanAnswer
from service.application.schemas.plan import GpuPlanAnswer, PlanAnswer
from service.application.schemas.plan_body import Format, PlanBody, PlanQuery
from service.application.services import Services
from service.application.text.plan_text import plan_text

router = APIRouter(tags=["plan"])

ANSWER: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "What the engine would do; `text/plain` is a table for people",
        "content": {TEXT: {"schema": {"type": "string"}}},
    }
}

NO_PLANS: Final = '"plans":[]'
DETAILED_GPUS: Final = 8
"""Plans for more GPU types are answered in short, unless the request asks for details."""

Accept = Annotated[str, Header(include_in_schema=False)]


@router.post(
    "/plan", response_model=PlanAnswer | BriefPlanAnswer, responses=ANSWER, summary="Dry-run the engine"
)
async def create_plan(
    body: PlanBody,
    services: CallersParts,
    metrics: Counts,
    run: RunnerOf,
    accept: Accept = "",
) -> Response:
    """Say what `vllm serve` would do with a model on each GPU type. Nothing is started or changed."""
    return await _answer(body, services, metrics, run, negotiated_format(accept))


@router.get(
    "/plan",
    response_model=PlanAnswer | BriefPlanAnswer,
    responses=ANSWER,
    summary="Dry-run the engine, by query",
)
async def get_plan(
    query: Annotated[PlanQuery, Query()],
    services: CallersParts,
    metrics: Counts,
    run: RunnerOf,
    accept: Accept = "",
) -> Response:
    """Answer as POST does, by flat parameters; left out, each means what it means left out of the body."""
    body = read_plan_body(query.document())
    return await _answer(body, services, metrics, run, query.format or negotiated_format(accept))


async def _answer(
    body: PlanBody, services: Services, metrics: Metrics, run: Runner, form: Format
) -> Response:
    request = await plan_request(body, services)

    def answer() -> Response:
        plan = answer_plan_request(request, services)
        _count(plan, metrics)
        return _written(plan, form, detailed="details" in body.include or len(plan.plans) <= DETAILED_GPUS)

    return await run(answer, large=_is_large(request))


def _is_large(request: PlanRequest) -> bool:
    """Whether a request takes some tenths of a second or more of one core."""
    return len(request.gpus) > DETAILED_GPUS or len(request.engine.compared) > 1


def _written(plan: Plan, form: Format, *, detailed: bool) -> Response:
    if form != "json":
        return text_response(plan_text(plan, form))
    return _whole(plan) if detailed else json_response(BriefPlanAnswer.of(plan))


def _whole(plan: Plan) -> Response:
    """Return a plan with every candidate, written one GPU type at a time.

    Pydantic's JSON writer lets no other thread run until it ends: half a second for the whole catalog.
    """
    before, empty, after = PlanAnswer.of(replace(plan, plans=())).model_dump_json().partition(NO_PLANS)
    gpus = ",".join(GpuPlanAnswer.model_validate(gpu).model_dump_json() for gpu in plan.plans)
    return Response(f"{before}{empty[:-1]}{gpus}]{after}", media_type=JSON)


def _count(plan: Plan, metrics: Metrics) -> None:
    verdicts = Counter(candidate.verdict for gpu in plan.plans for candidate in gpu.candidates)
    for verdict, number in verdicts.items():
        metrics.count_candidates(verdict, number)
