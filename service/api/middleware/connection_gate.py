"""Refuses work while there are too many connections; operators are answered all the same."""

from typing import Final

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from service.api.errors import TooManyConnections
from service.api.middleware.request_log import PROBES
from service.api.responses import problem_response

OVER_LIMIT: Final = "crowded"
"""Member of a request's state by which the server says that there are too many connections."""


class ConnectionGate:
    """Lets all requests through while there are not too many connections, and those of operators always."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it and have its connection closed."""
        crowded = scope["type"] == "http" and scope.get("state", {}).get(OVER_LIMIT, False)
        if not crowded or scope["path"] in PROBES:
            await self._app(scope, receive, send)
            return
        response = problem_response(Request(scope), TooManyConnections())
        response.headers["Connection"] = "close"
        await response(scope, receive, send)
