"""Plans, asked for by body or by query string."""

import json
from collections import Counter
from collections.abc import Hashable
from typing import Annotated, Any, Final

from fastapi import Query
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from service.advisor.candidates.verdict import Verdict
from service.advisor.request.plan_request import PlanRequest
from service.api.bare_route import BareRoute
from service.api.dependencies import Accept, CallersParts, Counts, RunnerOf
from service.api.metrics import Metrics
from service.api.plan_size import engines_work_size, work_size
from service.api.raw_headers import header
from service.api.responses import (
    JSON,
    TEXT,
    json_response,
    negotiated_format,
    text_response,
)
from service.api.routes.route_list import RouteList
from service.api.work_lanes import Runner
from service.api.written_answers import (
    AnsweredBefore,
    WrittenAnswer,
    answered,
    count_verdicts,
    store_answer,
)
from service.application.plans.any_engine import answer_of_engines, any_question
from service.application.plans.engine_requests import engines_answer, read_any_body
from service.application.plans.plan_requests import answer_plan_request, plan_request
from service.application.plans.plan_writing import written_plan
from service.application.recent_models import ModelKey
from service.application.schemas.answers.engine_answer import EngineComparisonAnswer, EnginePlanAnswer
from service.application.schemas.answers.plan import PlanAnswer
from service.application.schemas.parts import Parts
from service.application.schemas.requests.engine_body import AnyBody, EngineBody
from service.application.schemas.requests.plan_body import PlanBody
from service.application.schemas.requests.plan_query import PlanQuery, WrittenForm
from service.application.services import Services
from service.application.text.engines_table import engines_text
from service.application.text.plan_format import Format
from service.application.text.plan_text import plan_text

router = RouteList(tags=["plan"], route_class=AnsweredBefore)

AnyAnswer = Annotated[PlanAnswer | EnginePlanAnswer | EngineComparisonAnswer, Field(discriminator="kind")]
"""vLLM alone, another engine alone, or several, by ``kind``."""

PLAIN: Final = WrittenForm()

ANSWER: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "What the engine would do; `text/plain` is a table for people, or with `format` "
        "`command`, `docker`, `compose` or `kubernetes` the commands alone, in the order of the GPU types, "
        "without comments. Where there is no command the answer is a problem with status 409 that says why",
        "content": {TEXT: {"schema": {"type": "string"}}},
    }
}


@router.post("/plan", response_model=AnyAnswer, responses=ANSWER, summary="Dry-run the engine")
async def create_plan(  # noqa: PLR0913, PLR0917 - one for each parameter
    body: AnyBody,
    asked: Request,
    services: CallersParts,
    metrics: Counts,
    run: RunnerOf,
    written: Annotated[WrittenForm, Query()],
    accept: Accept = "",
) -> Response:
    """Say what an engine would do with a model on each GPU type. Nothing is started or changed.

    The engine is vLLM unless `engine.name` says another; `engines` asks several, side by side.
    """
    form = written.format or body.format or negotiated_format(accept)
    if not isinstance(body, PlanBody):
        return await _answer_engines(body, services, run, form)
    return await _answer(body, asked, services, metrics, run, form, written)


@router.get(
    "/plan",
    response_model=AnyAnswer,
    responses=ANSWER,
    summary="Dry-run the engine, by query",
)
async def get_plan(  # noqa: PLR0913, PLR0917 - one for each parameter
    query: Annotated[PlanQuery, Query()],
    asked: Request,
    services: CallersParts,
    metrics: Counts,
    run: RunnerOf,
    accept: Accept = "",
) -> Response:
    """Answer as POST does, by flat parameters; left out, each means what it means left out of the body."""
    body = read_any_body(query.document())
    form = query.format or negotiated_format(accept)
    if not isinstance(body, PlanBody):
        return await _answer_engines(body, services, run, form)
    return await _answer(body, asked, services, metrics, run, form, query)


class BodyAlone(BareRoute):
    """A body that comes without a query or a token: what FastAPI does for it takes as long as a plan.

    FastAPI reads all others, and says what is wrong with a body.
    """

    async def answer(self, request: Request) -> Response | None:
        """Return the answer; ``None`` where FastAPI must read the body."""
        content = await request.body()
        return await answered(request, content, lambda: self._answer_new(request, content))

    async def _answer_new(self, request: Request, content: bytes) -> Response | None:
        try:
            body = PlanBody.model_validate(json.loads(content))
        except (ValueError, RecursionError):
            return None
        state = request.app.state
        form = body.format or negotiated_format(header(request.scope, b"accept"))
        run = state.lanes.of(request)
        return await _answer(body, request, state.services, state.metrics, run, form, PLAIN)


BODY_ALONE: Final = BodyAlone("/plan")


async def _answer_engines(body: EngineBody, services: Services, run: Runner, form: Format) -> Response:
    question = await any_question(body, services)

    def answer() -> Response:
        compared = answer_of_engines(question)
        if form != "json":
            return text_response(engines_text(compared, form))
        return json_response(engines_answer(compared, body))

    return await run(answer, size=engines_work_size(question))


async def _answer(  # noqa: PLR0913, PLR0917 - what both routes have
    body: PlanBody,
    asked: Request,
    services: Services,
    metrics: Metrics,
    run: Runner,
    form: Format,
    written: WrittenForm,
) -> Response:
    step = asked.app.state.tracing.step
    with step("resolve"):
        request = await plan_request(body, services)
    calibration = services.probes.learned.current

    def answer() -> tuple[Response, Counter[Verdict]]:
        with step("plan"):
            plan = answer_plan_request(request, services)
        verdicts = Counter(candidate.verdict for gpu in plan.plans for candidate in gpu.candidates)
        with step("write"):
            if form != "json":
                options = written.options(curve="curve" in body.include)
                return text_response(plan_text(plan, form, options)), verdicts
            return Response(written_plan(plan, Parts.of(body.include)), media_type=JSON), verdicts

    response, verdicts = await run(
        answer, size=work_size(request, body.include), kind=_kind(request, body, form)
    )
    count_verdicts(verdicts, metrics)
    if body.model is not None and services.models.is_shared:
        key = ModelKey.of(body.model, body.revision, request.engine.rules.checkpoints)
        content, kind = bytes(response.body), response.media_type or JSON
        store_answer(asked, WrittenAnswer(key, request.model, calibration, content, kind, verdicts))
    return response


def _kind(request: PlanRequest, body: PlanBody, form: Format) -> Hashable | None:
    """Return what the duration of a plan depends on, for one GPU type and no command; otherwise ``None``."""
    if len(request.gpus) != 1 or request.engine.compared or request.command is not None:
        return None
    flags, include = request.serve, frozenset(body.include)
    searched = (request.search, flags.tensor_parallel_size, flags.kv_cache_dtype, request.objective)
    place = (request.model.id, request.gpus[0].id, request.engine.rules.release)
    return (*place, searched, request.workload is None, include, form)
