"""Startup logs, read back."""

from typing import Any, Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from service.api.auth import Caller, operator_of
from service.api.dependencies import HUB_TOKEN, CallersParts, TurnOf
from service.api.responses import (
    TEXT,
    json_response,
    negotiated_format,
    text_response,
)
from service.application.log_evidence import Sender, store_log
from service.application.log_requests import log_request
from service.application.schemas.explanation import ExplainBody, ExplanationAnswer
from service.application.text.explanation import render_explanation
from service.startup_log.log import read_log

router = APIRouter(tags=["explain"])

ANSWER: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "The log beside its plan; `text/plain` is for people",
        "content": {TEXT: {"schema": {"type": "string"}}},
    }
}


LONG_LOG: Final = 1 << 18
"""Characters; most startup logs have fewer. Longer ones take some tenths of a second to read."""
NO_TOKEN_NEEDED: Final[dict[str, Any]] = {"security": [{}]}
"""Beside the bearer's, which OpenAPI would have required otherwise."""


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
    turn: TurnOf,
    request: Request,
) -> Response:
    """Say line by line how a real start compares with its plan, and why it failed if it did.

    Nothing of the log is kept, unless an operator asks with `keep` for its figures: later plans then learn
    from them, if less than from probes. What looks like a secret in it is never given back.
    """
    operator = operator_of(caller) if body.keep else None
    log = await turn(lambda: read_log(body.log), dear=len(body.log) > LONG_LOG)
    question = await log_request(log, body, services)
    explanation = await turn(lambda: question.explain(log), dear=len(body.log) > LONG_LOG)
    kept = None
    if operator is not None:
        sender, private = Sender(f"logs/{operator.name}", operator.id), HUB_TOKEN in request.headers
        kept = await store_log(explanation, body, services, sender=sender, private=private)
    if negotiated_format(request.headers.get("accept", "")) == "table":
        return text_response(render_explanation(explanation, kept))
    return json_response(ExplanationAnswer.of(explanation, kept))
