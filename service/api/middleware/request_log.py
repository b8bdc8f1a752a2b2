"""Gives every request an id, a log line and a duration, and answers errors that nothing else handles."""

import asyncio
import random
import re
import time
import uuid
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final

import structlog
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from structlog.contextvars import bind_contextvars, reset_contextvars

from service.api.errors import ServiceStops
from service.api.metrics import Metrics
from service.api.raw_headers import header
from service.api.responses import problem_response
from service.api.tracing import Tracing, describe, trace_id_of

REQUEST_ID: Final = "X-Request-ID"
RAW_REQUEST_ID: Final = REQUEST_ID.lower().encode()
UNMATCHED: Final = "unmatched"
PROBES: Final = frozenset({"/livez", "/readyz", "/health", "/metrics"})
_ACCEPTABLE: Final = re.compile(r"[\w.-]{1,64}", re.ASCII)
_IDS: Final = random.Random()  # noqa: S311 - no secret; asking the system gives the interpreter to other threads

_log = structlog.stdlib.get_logger("dryserve.http")


class RequestLog:
    """Outermost middleware of the application."""

    def __init__(
        self,
        app: ASGIApp,
        metrics: Metrics,
        tracing: Tracing,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._app = app
        self._metrics = metrics
        self._tracing = tracing
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and log it when it has been answered."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = request_id_of(scope)
        scope.setdefault("state", {})["request_id"] = request_id
        if scope["path"] in PROBES:
            await self._answer(scope, receive, send, request_id)
            return
        with self._tracing.request(scope) as span:
            trace_id = trace_id_of(scope) if span is None else f"{span.get_span_context().trace_id:032x}"
            ids = (
                {"request_id": request_id}
                if trace_id is None
                else {"request_id": request_id, "trace_id": trace_id}
            )
            # In every line that is logged meanwhile, threads included.
            bound = bind_contextvars(**ids)
            try:
                status = await self._answer(scope, receive, send, request_id)
            finally:
                reset_contextvars(**bound)
            describe(span, scope["method"], _route(scope), status)

    async def _answer(self, scope: Scope, receive: Receive, send: Send, request_id: str) -> int:
        """Pass a request on, and log it; return the status of its answer, 0 for none."""
        status = 0

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), (RAW_REQUEST_ID, request_id.encode())]
            await send(message)

        started = self._clock()
        self._metrics.active_requests.inc()
        try:
            await self._app(scope, receive, watched)
        except ClientDisconnect:
            _log.info("the caller left before the body was read", route=_route(scope))
        except asyncio.CancelledError:
            # The server cancels what is still being answered when its time to stop is over.
            _log.warning("the service stops before an answer", route=_route(scope))
            if status:
                raise
            await problem_response(Request(scope), ServiceStops())(scope, receive, watched)
        except Exception as error:
            _log.exception("request failed", route=_route(scope))
            if status:
                raise
            await problem_response(Request(scope), error)(scope, receive, watched)
        finally:
            self._metrics.active_requests.dec()
            self._record(scope, status, self._clock() - started)
        return status

    def _record(self, scope: Scope, status: int, seconds: float) -> None:
        if scope["path"] in PROBES:
            return
        route = _route(scope)
        self._metrics.observe_request(scope["method"], route, status, seconds)
        fields: dict[str, Any] = {"method": scope["method"], "route": route, "status": status}
        level = _log.info
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            # 503 is how a service that works refuses what is too much.
            level = _log.warning if status == HTTPStatus.SERVICE_UNAVAILABLE else _log.error
        level("request", **fields, duration_ms=round(seconds * 1000, 3))


def request_id_of(scope: Scope) -> str:
    """Return the id that the caller gave a request, else a new one."""
    given = header(scope, RAW_REQUEST_ID)
    return given if _ACCEPTABLE.fullmatch(given) else str(uuid.UUID(int=_IDS.getrandbits(128), version=4))


def _route(scope: Scope) -> str:
    return getattr(scope.get("route"), "path", UNMATCHED)
