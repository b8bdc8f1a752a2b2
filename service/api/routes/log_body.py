"""Takes a log as the whole body of a request, in pieces, so that a long log is never held in memory."""

import json
from collections.abc import Callable, Coroutine
from typing import Any, Final

from fastapi import Request, Response
from fastapi.routing import APIRoute
from pydantic import ValidationError
from starlette.types import Message

from service.api.middleware.body_limit import is_log
from service.application.problems.invalid_request import invalid_request
from service.application.schemas.explanation import ExplainParameters
from service.startup_log.text.long_logs import MAX_LOG_BYTES, CondensedLog, LogCondenser, LogDecoder

_SPECIFIED: Final = "condensed_log"
_REPLACED: Final = frozenset({b"content-type", b"content-length"})


class LogRoute(APIRoute):
    """A route whose body may be a log; the query holds what is given beside the log."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler, which turns a log into the JSON body that the route expects."""
        handle = super().get_route_handler()

        async def read(request: Request) -> Response:
            return await handle(await _as_json(request) if is_log(request.scope) else request)

        return read


def condensed_log(request: Request) -> CondensedLog | None:
    """Return the log that was the body of a request; ``None`` where the body was JSON."""
    found: CondensedLog | None = getattr(request.state, _SPECIFIED, None)
    return found


async def _as_json(request: Request) -> Request:
    document = _beside(request)
    setattr(request.state, _SPECIFIED, await _read(request))
    body = json.dumps(document).encode()
    given = False

    async def receive() -> Message:
        nonlocal given
        if given:
            # Nothing but the caller's leaving follows a whole body.
            return await request.receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    kept = [(name, value) for name, value in request.scope["headers"] if name not in _REPLACED]
    headers = [*kept, (b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    return Request({**request.scope, "headers": headers}, receive)


def _beside(request: Request) -> dict[str, Any]:
    """Return what is given beside a log.

    Raises:
        InvalidRequest: a parameter is not known, or its value cannot be read.
    """
    query = request.query_params
    given: dict[str, Any] = {name: query[name] for name in query}
    if "patch" in given:
        given["patch"] = query.getlist("patch")
    try:
        return ExplainParameters.model_validate(given).document()
    except ValidationError as error:
        raise invalid_request(error.errors(include_url=False)) from None


async def _read(request: Request) -> CondensedLog:
    decoder, condenser, left = LogDecoder(), LogCondenser(), MAX_LOG_BYTES
    async for piece in request.stream():
        condenser.feed(decoder.decode(piece))
        left -= len(piece)
    condenser.feed(decoder.finish())
    return condenser.finish(cut=left < 0, packed=decoder.packed)
