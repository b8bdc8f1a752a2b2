"""Answers of the page for people; `page_addresses` says where each is found."""

import csv
from collections.abc import Callable, Iterable
from http import HTTPStatus
from io import StringIO
from typing import Any, Final
from urllib.parse import parse_qs

from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from service.advisor.candidates.plan_types import Plan
from service.api.auth import may_read_openly
from service.api.dependencies import runner_of, services_of
from service.api.plan_size import work_size
from service.api.problems.handlers import HANDLED_ERRORS, problem_of
from service.api.responses import instance
from service.api.routes.explain import LONG_LOG
from service.api.work_lanes import WorkSize
from service.application.plans.log_requests import log_request
from service.application.plans.plan_requests import answer_plan_request, plan_request, read_plan_body
from service.application.probes import probe_jobs
from service.application.problems.invalid_request import invalid_request
from service.application.schemas.explanation import ExplainBody, ExplainParameters
from service.application.schemas.probes.probe import ProbeAnswer
from service.application.services import Services
from service.startup_log.log import read_log
from service.web.assets import MEDIA_TYPES, asset
from service.web.page import log_page, log_problem_page, plan_page, probes_page, problem_page, start_page
from service.web.plan_screens import Screen, screen_for
from service.web.questions.page_question import PageQuestion
from service.web.questions.question_form import QuestionForm, parameter_at
from service.web.standalone import standalone

HTML: Final = "text/html; charset=utf-8"
SVG: Final = "image/svg+xml"
CSV: Final = "text/csv; charset=utf-8"
POLICY: Final = (
    "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'self'; object-src 'none'"
)
"""Nothing is loaded from elsewhere, and nothing inline is run or styled."""
DRAWING_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"
HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Vary": "Accept",
}
MOST_PROBES: Final = 50
MOST_FIELDS: Final = 16
"""Fields of a form that are read."""
IMMUTABLE: Final = {
    "Cache-Control": "public, max-age=31536000, immutable",
    "X-Content-Type-Options": "nosniff",
}


async def get_start(request: Request) -> Response:
    """Return the form."""
    question = PageQuestion.of(request.query_params.multi_items())
    return _html(start_page(_form(question, await services_of(request))))


async def get_plan_page(request: Request) -> Response:
    """Return the page of a plan, or of what is wrong with the question."""
    question = PageQuestion.of(request.query_params.multi_items())
    services = await services_of(request)

    def written(plan: Plan, screen: Screen) -> Response:
        return _html(plan_page(plan, screen, question, _form(question, services)))

    try:
        return await _planned(request, question, written)
    except HANDLED_ERRORS as error:
        problem = problem_of(error, instance(request))
        faults = [parameter_at(each.pointer) for each in problem.errors or ()]
        page = problem_page(problem, question, _form(question, services, faults))
        answer = _html(page, problem.status)
        if problem.retry_after is not None:
            answer.headers["Retry-After"] = str(problem.retry_after)
        return answer


async def get_drawing(request: Request) -> Response:
    """Return the drawing of a screen as a file of its own."""
    question = PageQuestion.of(request.query_params.multi_items())

    def written(plan: Plan, screen: Screen) -> Response:
        if screen.drawing is None:
            raise HTTPException(404)
        drawn = standalone(screen.drawing(screen.view(plan, question)))
        return Response(drawn, headers={**HEADERS, "Content-Security-Policy": DRAWING_POLICY}, media_type=SVG)

    return await _planned(request, question, written)


async def get_table(request: Request) -> Response:
    """Return the table of a screen as CSV."""
    question = PageQuestion.of(request.query_params.multi_items())

    def written(plan: Plan, screen: Screen) -> Response:
        if screen.rows is None:
            raise HTTPException(404)
        text = StringIO()
        csv.writer(text).writerows(screen.rows(screen.view(plan, question)))
        return Response(text.getvalue(), headers=HEADERS, media_type=CSV)

    return await _planned(request, question, written)


async def get_log(request: Request) -> Response:
    """Return the form for a log."""
    return _html(log_page(PageQuestion.of(request.query_params.multi_items())))


async def explain_log_page(request: Request) -> Response:
    """Explain the log of a form; nothing of it is stored."""
    fields = parse_qs((await request.body()).decode("utf-8", "replace"), max_num_fields=MOST_FIELDS)
    text = "".join(fields.pop("log", ()))
    beside = PageQuestion.of((name, values[-1]) for name, values in fields.items())
    services = await services_of(request)
    run = await runner_of(request)
    size = WorkSize.MEDIUM if len(text) > LONG_LOG else WorkSize.SMALL
    try:
        body = ExplainBody.model_validate({**_beside(beside), "log": text})
        log = await run(lambda: read_log(text), size=size)
        start = await log_request(log, body, services)
        explanation = await run(lambda: start.explain(log), size=size)
    except ValidationError as error:
        return _log_problem(request, invalid_request(error.errors(include_url=False)), beside, text)
    except HANDLED_ERRORS as error:
        return _log_problem(request, error, beside, text)
    return _html(await run(lambda: log_page(beside, text, explanation), size=size))


def _beside(beside: PageQuestion) -> dict[str, Any]:
    return ExplainParameters.model_validate(dict(beside.pairs)).document()


def _log_problem(request: Request, error: Exception, beside: PageQuestion, text: str) -> Response:
    problem = problem_of(error, instance(request))
    return _html(log_problem_page(problem, beside, text), problem.status)


async def get_probes_page(request: Request) -> Response:
    """Return the page of the newest probes, to callers who may read them without a token."""
    if not may_read_openly(request):
        return _html(probes_page(None), HTTPStatus.UNAUTHORIZED)
    services = await services_of(request)
    run = await runner_of(request)
    await services.probes.load()
    jobs = await services.probes.jobs.latest(None, MOST_PROBES)

    def written() -> Response:
        answers = [ProbeAnswer.of(job, probe_jobs.waiting_for(job, services.probes)) for job in jobs]
        return _html(probes_page(answers))

    return await run(written)


async def get_asset(request: Request) -> Response:
    """Return a file of the page."""
    name = request.path_params["name"]
    if name not in MEDIA_TYPES:
        raise HTTPException(404)
    return Response(asset(name), headers=IMMUTABLE, media_type=MEDIA_TYPES[name])


async def _planned(
    request: Request, question: PageQuestion, written: Callable[[Plan, Screen], Response]
) -> Response:
    """Plan a question with what its screen needs, and write the answer in the same piece of work."""
    services = await services_of(request)
    run = await runner_of(request)
    asked = await plan_request(read_plan_body(question.document()), services)
    screen = screen_for(question, len(asked.gpus))
    prepared = screen.prepare(asked)
    return await run(
        lambda: written(answer_plan_request(prepared, services), screen), size=work_size(prepared)
    )


def _form(question: PageQuestion, services: Services, faults: Iterable[str] = ()) -> QuestionForm:
    return QuestionForm.of(question, services.snapshot.ids(), services.gpus, faults)


def _html(text: str, status: int = 200) -> Response:
    return Response(text, status, HEADERS, HTML)
