"""BareRoute: a POST of JSON without a query, answered without what FastAPI does for a request.

Its search for the route, its dependencies and its clean-up stacks take as long as a small plan. The route of
FastAPI with the same path stays: it is the contract, and it answers all that a bare route leaves to it.
"""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match
from starlette.types import Message, Receive, Scope, Send

from service.api.dependencies import HUB_TOKEN
from service.api.raw_headers import header
from service.api.replayed import replayed
from service.api.responses import JSON

LEFT: Final = "bare_route_left"
"""Member of a scope whose request a bare route has left to the routes after it."""
RAW_HUB_TOKEN: Final = HUB_TOKEN.lower().encode()


class BareRoute(BaseRoute):
    """A route for requests that need none of FastAPI's work."""

    def __init__(self, path: str) -> None:
        self.path = path

    def matches(self, scope: Scope) -> tuple[Match, Mapping[str, Any]]:  # type: ignore[override] # never changed
        """Compare a request with the route."""
        if (
            scope["path"] != scope.get("root_path", "") + self.path
            or scope["type"] != "http"
            or scope["method"] != "POST"
            or scope["query_string"]
            or LEFT in scope
            or header(scope, b"content-type") != JSON
            or any(name == RAW_HUB_TOKEN for name, _ in scope["headers"])
        ):
            return Match.NONE, {}
        return Match.FULL, {"route": self}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or leave it to the routes after this one."""
        request = Request(scope, receive)
        response = await self.answer(request)
        if response is None:
            scope[LEFT] = True
            body: Message = {"type": "http.request", "body": await request.body(), "more_body": False}
            await scope["router"].app(scope, replayed(body, receive), send)
            return
        # A browser gets another answer at the same address.
        response.headers.add_vary_header("Accept")
        await response(scope, receive, send)

    @abstractmethod
    async def answer(self, request: Request) -> Response | None:
        """Return the answer to a request; ``None`` to leave it to the routes after this one."""
