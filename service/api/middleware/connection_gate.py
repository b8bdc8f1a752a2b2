"""Refuses requests while there are too many connections, except for the operators' routes."""

from typing import Final

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from service.api.errors import TooManyConnections
from service.api.middleware.request_log import PROBES
from service.api.responses import problem_response

OVER_LIMIT: Final = "over_limit"
"""Member of a request's state in which the server says whether there are too many connections."""


class ConnectionGate:
    """Passes requests on while there are not too many connections, and those to operators' routes always."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it and have its connection closed."""
        over_limit = scope["type"] == "http" and scope.get("state", {}).get(OVER_LIMIT, False)
        if not over_limit or scope["path"] in PROBES:
            await self._app(scope, receive, send)
            return
        response = problem_response(Request(scope), TooManyConnections())
        response.headers["Connection"] = "close"
        await response(scope, receive, send)
