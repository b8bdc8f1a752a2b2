"""Every fault as a problem (RFC 9457)."""

from collections.abc import Iterable
from http import HTTPStatus
from itertools import islice
from typing import Any, Final

from starlette.exceptions import HTTPException

from service.api.problems.problem_type import ProblemType
from service.api.problems.problem_types import INTERNAL_ERROR, KINDS, problem_type_of
from service.application.errors import (
    MOST_ERRORS,
    InputFault,
    InvalidRequest,
    UnknownFlag,
)
from service.application.schemas.problem import FieldError, Problem
from service.hub.errors import HubError
from service.nearest_names import cut
from service.redaction import hide_secrets

MEDIA_TYPE: Final = "application/problem+json"
DETAIL_BYTES: Final = 4096
REASON_BYTES: Final = 1024
POINTER_BYTES: Final = 256
"""What is told of a fault at most, and of each value at fault: an answer to nonsense is never long."""
CUT_OFF: Final = "..."


def problem_of(error: Exception, instance: str) -> Problem:
    """Describe a fault.

    A value at fault inside a question is the question's fault (422), whatever the same value would be as an
    address.
    """
    if isinstance(error, InputFault):
        pointer, cause = error.pointer, error.cause
        kind = problem_type_of(cause)
        return _problem(
            kind,
            cause,
            instance,
            HTTPStatus.UNPROCESSABLE_ENTITY,
            [(pointer, getattr(cause, "detail", str(cause)))],
        )
    kind = problem_type_of(error)
    errors = error.errors if isinstance(error, InvalidRequest | UnknownFlag) else ()
    return _problem(kind, error, instance, kind.status, errors)


def _problem(
    kind: ProblemType, error: Exception, instance: str, status: HTTPStatus, errors: Iterable[tuple[str, str]]
) -> Problem:
    unforeseen = kind is INTERNAL_ERROR or isinstance(error, HTTPException)
    detail = kind.explanation if unforeseen else _words(error)
    return Problem(
        type=kind.type,
        title=kind.title,
        status=status,
        detail=detail,
        instance=instance,
        errors=[
            FieldError(pointer=_bounded(at, POINTER_BYTES), detail=_bounded(why, REASON_BYTES))
            for at, why in islice(errors, MOST_ERRORS)
        ]
        or None,
        nearest=list(getattr(error, "nearest", ())) or None,
        retry_after=getattr(error, "retry_after", None),
    )


def _words(error: Exception) -> str:
    return _bounded(str(error), DETAIL_BYTES)


def _bounded(text: str, most_bytes: int) -> str:
    """Return words that hold what a caller chose: no secret, nothing unprintable, at most so many bytes.

    A lone surrogate, which JSON can carry in, has no UTF-8 to be sent back as, and a control character takes
    six bytes in JSON.
    """
    text = cut(text, most_bytes)
    if not text.isprintable():
        text = "".join(each if each.isprintable() or each == "\n" else _escaped(each) for each in text)
    written = hide_secrets(text).encode()
    if len(written) <= most_bytes:
        return written.decode()
    return f"{written[: most_bytes - len(CUT_OFF)].decode('utf-8', 'ignore')}{CUT_OFF}"


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()


def handled_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions that become problems, base classes last."""
    return (*KINDS, InputFault, HubError, HTTPException)


def responses() -> dict[int | str, dict[str, Any]]:
    """Return what OpenAPI says of faults: every one of them is a problem."""
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {
        code: {"description": description, "content": content}
        for code, description in (
            ("4XX", "The question is at fault"),
            ("5XX", "The service or the Hub is at fault"),
        )
    }
