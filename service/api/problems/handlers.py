"""Turns the errors of routes and of the framework into problems (RFC 9457)."""

from typing import Any, Final

from starlette.exceptions import HTTPException

from service.api.problems.http_problem_types import TYPE_BY_ERROR, problem_type_of
from service.application.errors import InputFault
from service.application.problems import problem_of as use_cases
from service.application.schemas.answers.problem import Problem
from service.hub.errors import HubError

MEDIA_TYPE: Final = "application/problem+json"
HANDLED_ERRORS: Final[tuple[type[Exception], ...]] = (*TYPE_BY_ERROR, InputFault, HubError, HTTPException)
"""Exceptions that become problems, base classes last."""


def problem_of(error: Exception, instance: str) -> Problem:
    """Return the problem that describes an error; ``instance``: URI of the request.

    The framework's own refusals have no words worth showing: the explanation of their type stands for them.
    """
    if isinstance(error, HTTPException):
        kind = problem_type_of(error)
        problem = use_cases.describe(kind, error, instance)
        return problem.model_copy(update={"detail": kind.explanation})
    return use_cases.problem_of(error, instance, TYPE_BY_ERROR)


def responses() -> dict[int | str, dict[str, Any]]:
    """Return what OpenAPI says of errors: each of them is answered with a problem."""
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {
        code: {"description": description, "content": content}
        for code, description in (
            ("4XX", "The request is wrong"),
            ("5XX", "The service or the Hub failed"),
        )
    }
