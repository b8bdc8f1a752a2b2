"""Route that compares a startup log with its plan."""

from typing import Any, Final

from fastapi import Request
from starlette.responses import Response

from service.api.auth import Caller, operator_of
from service.api.dependencies import HUB_TOKEN, CallersParts, RunnerOf
from service.api.responses import (
    TEXT,
    json_response,
    negotiated_format,
    text_response,
)
from service.api.routes.log_body import LogRoute, condensed_log
from service.api.routes.route_list import RouteList
from service.api.work_lanes import WorkSize
from service.application.plans.log_requests import log_request
from service.application.probes.log_evidence import Sender, store_log
from service.application.schemas.explanation import ExplainBody, ExplanationAnswer
from service.application.text.engine_log import render_engine_log
from service.application.text.explanation import render_explanation
from service.application.text.explanation_markdown import render_markdown
from service.application.text.headline import understood
from service.engines_compared.engine_logs import engine_log_of
from service.startup_log.log import read_log

router = RouteList(tags=["explain"], route_class=LogRoute)

MARKDOWN: Final = "text/markdown"
ANSWER: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "The log compared with its plan; `text/plain` is for people",
        "content": {TEXT: {"schema": {"type": "string"}}, MARKDOWN: {"schema": {"type": "string"}}},
    }
}


LONG_LOG: Final = 1 << 18
"""Characters; most startup logs have fewer. Reading a longer log takes some tenths of a second."""
NO_TOKEN_NEEDED: Final[dict[str, Any]] = {"security": [{}]}
"""Says in OpenAPI that the bearer token may be left out."""


@router.post(
    "/explain",
    response_model=ExplanationAnswer,
    responses=ANSWER,
    openapi_extra=NO_TOKEN_NEEDED,
    summary="Explain a startup log",
)
async def explain_log(
    body: ExplainBody,
    services: CallersParts,
    caller: Caller,
    run: RunnerOf,
    request: Request,
) -> Response:
    """Compare a real start with its plan, line by line, and say why it failed if it did.

    Nothing of the log is stored, unless an operator asks for that with `keep`: then its figures are stored,
    and later plans learn from them, with less weight than from probes. Text of the log that looks like a
    secret is left out of the answer.

    A log of up to 64 MiB can be the whole body, with the type `text/plain`; what is given beside it is in
    the query then. Of a long log the two ends and every failure between them are read, and the answer says
    how many lines were only searched.
    """
    operator = operator_of(caller) if body.keep else None
    text = condensed_log(request) or body.log
    long = not isinstance(text, str) or len(text) > LONG_LOG
    size = WorkSize.MEDIUM if long else WorkSize.SMALL
    step = request.app.state.tracing.step
    with step("read the log"):
        log = await run(lambda: read_log(text), size=size)
        other = await run(lambda: engine_log_of(text), size=size)
    with step("resolve"):
        start = await log_request(log, body, services)
    with step("explain"):
        explanation = await run(lambda: start.explain(log), size=size)
    stored = None
    if operator is not None:
        sender, private = Sender(f"logs/{operator.name}", operator.id), HUB_TOKEN in request.headers
        stored = await store_log(explanation, body, services, sender=sender, private=private)
    if MARKDOWN in request.headers.get("accept", ""):
        return Response(render_markdown(explanation), media_type=MARKDOWN)
    if negotiated_format(request.headers.get("accept", "")) == "table":
        if other is not None and not understood(explanation):
            return text_response(render_engine_log(other))
        return text_response(render_explanation(explanation, stored))
    return json_response(ExplanationAnswer.of(explanation, stored, other))
