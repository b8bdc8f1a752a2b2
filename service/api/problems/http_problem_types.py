"""Problem types that only HTTP has, and the problem types of all errors that routes raise."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from starlette.exceptions import HTTPException

from service.api.errors import (
    Forbidden,
    MalformedJson,
    Overloaded,
    ProblemTypeNotFound,
    ServiceStops,
    SlowRequest,
    TimeLimitReached,
    TooManyAttempts,
    TooManyConnections,
    Unauthorized,
    UnsupportedMediaType,
)
from service.application.problems import problem_types
from service.application.problems.problem_type import ProblemType
from service.application.problems.problem_types import INTERNAL_ERROR

NOT_FOUND: Final = ProblemType(
    "not-found", HTTPStatus.NOT_FOUND, "No such path", "No route of this service has this path."
)
METHOD_NOT_ALLOWED: Final = ProblemType(
    "method-not-allowed",
    HTTPStatus.METHOD_NOT_ALLOWED,
    "The path does not have this method",
    "The path has other methods, which the Allow header lists.",
)
BODY_TOO_LARGE: Final = ProblemType(
    "body-too-large",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    "The body is too large",
    "A JSON body has at most 17 MiB, 262,144 values, and 100,000 objects and lists, its config.json "
    "included. A log that is the whole body, as text/plain, has at most 64 MiB.",
)
ADDRESS_TOO_LONG: Final = ProblemType(
    "address-too-long",
    HTTPStatus.REQUEST_URI_TOO_LONG,
    "The address is too long",
    "An address with its query has at most 32 KiB and 2,048 parameters. Send longer requests by POST.",
)
HEADERS_TOO_LARGE: Final = ProblemType(
    "headers-too-large",
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
    "The headers are too large",
    "The headers of a request have at most 64 KiB together.",
)

TYPE_BY_ERROR: Final[Mapping[type[Exception], ProblemType]] = {
    **problem_types.TYPE_BY_ERROR,
    MalformedJson: ProblemType(
        "malformed-json",
        HTTPStatus.BAD_REQUEST,
        "The body is not JSON",
        "The body could not be parsed. Send one JSON object.",
    ),
    UnsupportedMediaType: ProblemType(
        "unsupported-media-type",
        HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
        "The body is not sent as JSON",
        "Send the header `Content-Type: application/json`.",
    ),
    Unauthorized: ProblemType(
        "unauthorized",
        HTTPStatus.UNAUTHORIZED,
        "A token is needed",
        "Send `Authorization: Bearer TOKEN`. `dryserve token create` makes tokens. Reading needs none on the "
        "service's own host, if the service listens on loopback alone and the request passes no proxy.",
    ),
    Forbidden: ProblemType(
        "forbidden",
        HTTPStatus.FORBIDDEN,
        "The token does not allow this",
        "Tokens are for operators, readers or workers. Only operators change what others "
        "see, and only workers "
        "take jobs.",
    ),
    TooManyAttempts: ProblemType(
        "too-many-attempts",
        HTTPStatus.TOO_MANY_REQUESTS,
        "Too many wrong tokens",
        "Too many wrong tokens came from this address within a minute. Repeat the request with a valid one "
        "after `Retry-After` seconds.",
    ),
    ProblemTypeNotFound: ProblemType(
        "unknown-problem",
        HTTPStatus.NOT_FOUND,
        "No such problem type",
        "GET /problems lists all problem types.",
    ),
    Overloaded: ProblemType(
        "overloaded",
        HTTPStatus.SERVICE_UNAVAILABLE,
        "Too many requests wait",
        "Requests are answered one after another, and too many wait already. `Retry-After` says when to "
        "repeat the request; one for fewer GPU types, or without `levers` and `details`, waits less. "
        "DRYSERVE_PLAN_QUEUE_LIMIT sets how many large requests may wait.",
    ),
    TimeLimitReached: ProblemType(
        "time-limit",
        HTTPStatus.UNPROCESSABLE_ENTITY,
        "The request takes too long",
        "The answer was not finished within the time limit of one request. Ask for fewer GPU types or "
        "releases, or leave out `levers` and `details`. DRYSERVE_PLAN_SECONDS sets the limit.",
    ),
    ServiceStops: ProblemType(
        "service-stops",
        HTTPStatus.SERVICE_UNAVAILABLE,
        "The service stops",
        "A service that stops takes no new requests, and its time for those that are being answered is over. "
        "Repeat the request after `Retry-After` seconds, when it or another replica runs. "
        "DRYSERVE_STOP_SECONDS sets the time.",
    ),
    SlowRequest: ProblemType(
        "slow-request",
        HTTPStatus.REQUEST_TIMEOUT,
        "The request came too slowly",
        "The head of a request must arrive within 10 seconds, and its body within 60 more. The connection is "
        "closed after this answer: repeat the request on another one.",
    ),
    TooManyConnections: ProblemType(
        "too-many-connections",
        HTTPStatus.SERVICE_UNAVAILABLE,
        "Too many connections are open",
        "Repeat the request after `Retry-After` seconds. DRYSERVE_MAX_CONNECTIONS sets how many connections "
        "there may be.",
    ),
}
"""Problem types by exception: those of the use cases, and those of HTTP."""

TYPE_BY_STATUS: Final[Mapping[int, ProblemType]] = {
    HTTPStatus.BAD_REQUEST: TYPE_BY_ERROR[MalformedJson],
    HTTPStatus.NOT_FOUND: NOT_FOUND,
    HTTPStatus.METHOD_NOT_ALLOWED: METHOD_NOT_ALLOWED,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: BODY_TOO_LARGE,
    HTTPStatus.SERVICE_UNAVAILABLE: TYPE_BY_ERROR[Overloaded],
    HTTPStatus.REQUEST_URI_TOO_LONG: ADDRESS_TOO_LONG,
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE: HEADERS_TOO_LARGE,
}
"""Problem types of the framework's own refusals, by their status."""

PROBLEM_TYPES: Final = tuple(
    sorted({*TYPE_BY_ERROR.values(), *TYPE_BY_STATUS.values(), INTERNAL_ERROR}, key=lambda kind: kind.slug)
)
"""Every problem type, by slug."""


def problem_type_of(error: Exception) -> ProblemType:
    """Return the problem type of an error; ``INTERNAL_ERROR`` for one that is not foreseen."""
    if isinstance(error, HTTPException):
        return TYPE_BY_STATUS.get(error.status_code, INTERNAL_ERROR)
    return problem_types.problem_type_of(error, TYPE_BY_ERROR)
