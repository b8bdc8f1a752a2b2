"""Refuses large questions for which there is no place, before anything else is done for them.

Callers who ask far more than can be answered are refused a thousand times a second, beside a thread that
plans. All that a request passes on its way to a route takes ten times as long as the refusal itself, and
would keep the event loop from other callers. The answer is the one that the route would give; no span is
made of it, and many refusals share one line of the log.
"""

import time
from collections.abc import Callable
from functools import lru_cache
from http import HTTPStatus
from typing import Any, Final

from starlette.datastructures import State
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.api.dependencies import HUB_TOKEN
from service.api.errors import Overloaded
from service.api.lane import Lane, caller_of
from service.api.middleware.body_budget import SMALL_BYTES
from service.api.middleware.connection_gate import ADMIN, OVER_LIMIT
from service.api.middleware.request_log import RAW_REQUEST_ID, request_id_of
from service.api.problems.handlers import MEDIA_TYPE
from service.api.raw_headers import header
from service.api.refusals import RefusalLog
from service.api.replayed import replayed
from service.api.responses import VERSION_PREFIX, instance_of, problem_document
from service.api.written_answers import names_no_gpu, question_asked

ROUTE: Final = "/plan"
PATHS: Final = frozenset({ROUTE, f"{VERSION_PREFIX}{ROUTE}"})
OTHERS: Final = frozenset({HUB_TOKEN.lower().encode(), b"origin"})
"""Headers of requests whose answer depends on more."""
REASON: Final = "overloaded"
MARK: Final = "REQUEST-ID"
"""Stands for the id of a request in a problem that is written once for many."""


class Shedding:
    """Answers such questions; passes all others on."""

    def __init__(self, app: ASGIApp, state: State, clock: Callable[[], float] = time.perf_counter) -> None:
        self._app = app
        self._state = state
        self._lane: Lane = state.lanes.large
        self._clock = clock
        self._log = RefusalLog("requests refused")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http" or not self._lane.is_filled or not _is_plain(scope):
            await self._app(scope, receive, send)
            return
        started = self._clock()
        first = await receive()
        error = self._refusal(scope, first)
        if error is None:
            await self._app(scope, replayed(first, receive), send)
            return
        self._lane.note_refusal()
        request_id = request_id_of(scope)
        before, after = _problem_around(error.waiting, error.retry_after, self._state.root_path)
        body = b"".join((before, request_id.encode(), after))
        headers = [
            (b"retry-after", str(error.retry_after).encode()),
            (b"content-length", str(len(body)).encode()),
            (b"content-type", MEDIA_TYPE.encode()),
            (RAW_REQUEST_ID, request_id.encode()),
        ]
        status = HTTPStatus.SERVICE_UNAVAILABLE.value
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})
        self._state.metrics.observe_request("POST", ROUTE, status, self._clock() - started)
        self._log(REASON)

    def _refusal(self, scope: Scope, first: Message) -> Overloaded | None:
        """Return why a request is refused, by the first part of its body; ``None`` where it is passed on."""
        body = first.get("body", b"")
        is_whole = not first.get("more_body", False) or header(scope, b"content-length") == str(len(body))
        if first["type"] != "http.request" or not is_whole or len(body) > SMALL_BYTES:
            return None
        question = question_asked(scope, body)
        if not names_no_gpu(question) or self._state.answers.find(question, self._state.services) is not None:
            return None
        return self._lane.refusal(caller_of(scope))


def _is_plain(scope: Scope) -> bool:
    """Whether a request asks for a plan, and nothing else decides how it is answered."""
    if scope["path"] not in PATHS or scope["method"] != "POST":
        return False
    state: dict[str, Any] = scope.get("state", {})
    apart = state.get(OVER_LIMIT, False) or state.get(ADMIN, False)
    return not apart and all(name not in OTHERS for name, _ in scope["headers"])


@lru_cache(maxsize=256)
def _problem_around(waiting: int, retry_after: int, root_path: str) -> tuple[bytes, bytes]:
    """Return the problem of a refusal as JSON, as what stands before the request's id and what behind it."""
    problem = problem_document(Overloaded(waiting, retry_after), instance_of(MARK), root_path)
    before, _, after = problem.model_dump_json(exclude_none=True).encode().partition(MARK.encode())
    return before, after
