"""Refuses requests while there are too many connections, and those that came to the wrong listener."""

from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from service.api.errors import TooManyConnections
from service.api.middleware.request_log import PROBES
from service.api.responses import problem_response

OVER_LIMIT: Final = "over_limit"
"""Member of a request's state in which the server says whether there are too many connections."""


ADMIN: Final = "admin"
"""Member of a request's state which the operators' listener sets."""
METRICS: Final = "/metrics"


class ConnectionGate:
    """Passes requests on while there are not too many connections, and those to operators' routes always.

    ``has_admin``: whether operators have a listener of their own: metrics are answered there alone, and there
    nothing but operators' routes is answered.
    """

    def __init__(self, app: ASGIApp, *, has_admin: bool = False) -> None:
        self._app = app
        self._has_admin = has_admin

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it and have its connection closed."""
        state = scope.get("state", {}) if scope["type"] == "http" else {}
        if state and self._is_elsewhere(scope["path"], state.get(ADMIN, False)):
            await problem_response(Request(scope), HTTPException(404))(scope, receive, send)
            return
        over_limit = state.get(OVER_LIMIT, False)
        if not over_limit or scope["path"] in PROBES:
            await self._app(scope, receive, send)
            return
        response = problem_response(Request(scope), TooManyConnections())
        response.headers["Connection"] = "close"
        await response(scope, receive, send)

    def _is_elsewhere(self, path: str, admin: bool) -> bool:
        return path not in PROBES if admin else self._has_admin and path == METRICS
