"""Startup logs, read back."""

from typing import Annotated, Any, Final

from fastapi import APIRouter, Header
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from service.api.auth import Bearer, operating
from service.api.keeping import keep_log
from service.api.logged import logged_question
from service.api.replies import TEXT, json_response, text_response, wanted_format
from service.api.routes.parts import HUB_TOKEN, CallersParts
from service.api.schemas.explanation import ExplainBody, ExplanationAnswer
from service.api.text.explanation import render_explanation
from service.startup_log.log import read_log

router = APIRouter(tags=["explain"])

ANSWER: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "The log beside its plan; `text/plain` is for people",
        "content": {TEXT: {"schema": {"type": "string"}}},
    }
}


@router.post("/explain", response_model=ExplanationAnswer, responses=ANSWER, summary="Explain a startup log")
async def explain_log(
    body: ExplainBody,
    services: CallersParts,
    bearer: Bearer,
    hub_token: Annotated[str | None, Header(alias=HUB_TOKEN, include_in_schema=False)] = None,
    accept: Annotated[str, Header(include_in_schema=False)] = "",
) -> Response:
    """Say line by line how a real start compares with its plan, and why it failed if it did.

    Nothing of the log is kept, unless an operator asks with `keep` for its figures: later plans then learn
    from them, if less than from probes. What looks like a secret in it is never given back.
    """
    operator = await operating(bearer, services) if body.keep else None
    log = await run_in_threadpool(read_log, body.log)
    question = await logged_question(log, body, services)
    explanation = await run_in_threadpool(question.explain, log)
    kept = None
    if operator is not None:
        witness, private = f"logs/{operator.name}", hub_token is not None
        kept = await keep_log(explanation, body, services, witness=witness, private=private)
    if wanted_format(accept) == "table":
        return text_response(render_explanation(explanation, kept))
    return json_response(ExplanationAnswer.of(explanation, kept))
