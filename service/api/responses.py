"""Builds HTTP responses: JSON, text and problems."""

from collections.abc import Sequence
from functools import lru_cache
from http import HTTPStatus
from typing import Final

from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from service.api.problems.handlers import MEDIA_TYPE, problem_of
from service.application.schemas.answers.problem import Problem
from service.application.text.plan_format import Format
from service.nearest_names import nearest

JSON: Final = "application/json"
TEXT: Final = "text/plain"
HTML: Final = "text/html"
ROUTE_ALIKE: Final = 0.7
"""Similarity, from 0 to 1, of a path that is rather mistyped than asked by a scanner."""
VERSION_PREFIX: Final = "/v1"
"""First part of the documented paths; the same routes are found without it, as before there was a version."""


def json_response(document: BaseModel) -> Response:
    """Return a document as JSON; equal documents give equal bytes."""
    return Response(document.model_dump_json(), media_type=JSON)


def text_response(text: str) -> Response:
    """Return a response with plain text."""
    return Response(text, media_type=TEXT)


def problem_response(request: Request, error: Exception) -> Response:
    """Return an error as a problem."""
    problem = problem_document(error, instance(request), request.app.state.root_path)
    if isinstance(error, HTTPException) and error.status_code == HTTPStatus.NOT_FOUND:
        problem = _with_nearest_routes(problem, request)
    headers = {}
    if problem.status == HTTPStatus.METHOD_NOT_ALLOWED:
        headers["Allow"] = _allowed(request)
    if problem.status == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = "Bearer"
    if problem.retry_after is not None:
        headers["Retry-After"] = str(problem.retry_after)
    content = problem.model_dump_json(exclude_none=True)
    return Response(content, problem.status, headers, media_type=MEDIA_TYPE)


def _with_nearest_routes(problem: Problem, request: Request) -> Problem:
    """Return the problem of a path that no route has, with the routes that are spelt alike."""
    path = request.url.path.removeprefix(VERSION_PREFIX)
    routes = {route.path for route in request.app.routes if isinstance(route, Route)}
    alike = nearest(
        path, sorted(each for each in routes if "{" not in each and each != "/"), cutoff=ROUTE_ALIKE
    )
    if not alike:
        return problem
    named = [f"{VERSION_PREFIX}{each}" for each in alike]
    detail = f"{problem.detail} Nearest: {', '.join(named)}; GET /openapi.yaml lists all."
    return problem.model_copy(update={"nearest": named, "detail": detail})


def problem_document(error: Exception, instance: str, root_path: str) -> Problem:
    """Return the problem of an error, with the address of its type behind the prefix of a proxy."""
    problem = problem_of(error, instance)
    return problem.model_copy(update={"type": f"{root_path}{problem.type}"}) if root_path else problem


def _allowed(request: Request) -> str:
    # FastAPI names only the methods of the first route with this path.
    path, paths = getattr(request.scope.get("route"), "path", ""), request.app.openapi()["paths"]
    methods = {name.upper() for name in paths.get(path, paths.get(f"{VERSION_PREFIX}{path}", ()))}
    return ", ".join(sorted(methods | ({"HEAD"} if "GET" in methods else set())))


def instance(request: Request) -> str:
    """Return the URI that names a request."""
    return instance_of(request.state.request_id)


def instance_of(request_id: str) -> str:
    """Return the URI that names the request of an id."""
    return f"urn:dryserve:request:{request_id}"


@lru_cache(maxsize=64)
def negotiated_format(accept: str) -> Format:
    """Choose between JSON and a table by an Accept header; JSON where both suit it."""
    text, other = _preference(accept, TEXT), _preference(accept, JSON)
    return "table" if text > other and text[0] > 0 else "json"


@lru_cache(maxsize=64)
def prefers_page(accept: str) -> bool:
    """Whether an Accept header names HTML and prefers it to JSON, as those of browsers do."""
    page, other = _preference(accept, HTML), _preference(accept, JSON)
    return "text/html" in accept.lower() and page[0] > 0 and page > other


def _preference(accept: str, offer: str) -> tuple[float, int]:
    """Rate an offer by the most specific range that covers it (RFC 9110, section 12.5.1)."""
    covering = {offer: 2, f"{offer.partition('/')[0]}/*": 1, "*/*": 0}
    specificity, weight = -1, 0.0
    for text in accept.split(",") if accept.strip() else ["*/*"]:
        name, *parameters = (part.strip().lower() for part in text.split(";"))
        if covering.get(name, -1) > specificity:
            specificity, weight = covering[name], _weight(parameters)
    return weight, specificity


def _weight(parameters: Sequence[str]) -> float:
    given = next((part.removeprefix("q=") for part in parameters if part.startswith("q=")), "1")
    try:
        return float(given)
    except ValueError:
        return 0.0
