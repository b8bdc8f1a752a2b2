"""Addresses of the page for people: `/`, `/plan` where HTML is accepted, its exports and its files.

What answers there is imported when somebody first asks for it: programs need neither the templates nor the
drawings.
"""

from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import Any, Final

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import Scope

from service.api.responses import prefers_page
from service.web.assets import FOLDER

ANSWERS: Final = "service.api.routes.page"


class FileRoute(Route):
    """A route to what a page is made of, which logs and metrics know by its path."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Compare a request with the route."""
        found, child = super().matches(scope)
        return found, {**child, "route": self} if found is Match.FULL else child


class PageRoute(FileRoute):
    """A route that only those find who accept HTML and name no other format; others share its address."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Compare a request with the route; other methods are those of the routes that share the address."""
        found, child = super().matches(scope)
        wanted = found is Match.FULL and _wants_page(Request(scope))
        return (found, child) if wanted else (Match.NONE, {})


def _wants_page(request: Request) -> bool:
    return "format" not in request.query_params and prefers_page(request.headers.get("accept", ""))


def _answered_by(name: str) -> Callable[[Request], Awaitable[Response]]:
    """Return an endpoint that calls a function of the module of answers."""

    async def answer(request: Request) -> Response:
        answers: Any = await to_thread.run_sync(import_module, ANSWERS)
        answered: Response = await getattr(answers, name)(request)
        return answered

    answer.__name__ = name
    return answer


ROUTES: Final = (
    PageRoute("/", _answered_by("get_start")),
    PageRoute("/plan", _answered_by("get_plan_page")),
    PageRoute("/probes", _answered_by("get_probes_page")),
    FileRoute("/log", _answered_by("get_log"), methods=["GET"]),
    FileRoute("/log", _answered_by("explain_log_page"), methods=["POST"]),
    FileRoute("/plan.svg", _answered_by("get_drawing")),
    FileRoute("/plan.csv", _answered_by("get_table")),
    FileRoute(f"/{FOLDER}/{{name}}", _answered_by("get_asset")),
)
"""In the order in which they are compared with a request."""
