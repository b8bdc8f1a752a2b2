"""Startup logs, read back."""

from typing import Annotated, Any, Final

from fastapi import APIRouter, Header
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from service.api.logged import logged_question
from service.api.replies import TEXT, json_response, text_response, wanted_format
from service.api.routes.parts import CallersParts
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
    body: ExplainBody, services: CallersParts, accept: Annotated[str, Header(include_in_schema=False)] = ""
) -> Response:
    """Say line by line how a real start compares with its plan, and why it failed if it did.

    Nothing of the log is kept. What looks like a secret in it is never given back.
    """
    log = await run_in_threadpool(read_log, body.log)
    question = await logged_question(log, body, services)

    def answer() -> Response:
        explanation = question.explain(log)
        if wanted_format(accept) == "table":
            return text_response(render_explanation(explanation))
        return json_response(ExplanationAnswer.of(explanation))

    return await run_in_threadpool(answer)
