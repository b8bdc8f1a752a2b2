"""Describes an error as a problem (RFC 9457)."""

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from itertools import islice
from typing import Final

from service.application.errors import (
    MOST_ERRORS,
    FieldFault,
    InputFault,
    InvalidRequest,
    RefusedCommand,
    UnknownFlag,
    UnknownParameter,
)
from service.application.problems.problem_type import ProblemType
from service.application.problems.problem_types import INTERNAL_ERROR, TYPE_BY_ERROR, problem_type_of
from service.application.schemas.answers.problem import FieldError, Problem
from service.hub.errors import HubError
from service.nearest_names import MOST_NEAREST, cut
from service.redaction import hide_secrets

DETAIL_BYTES: Final = 4096
REASON_BYTES: Final = 1024
POINTER_BYTES: Final = 256
"""UTF-8 bytes of each part of a problem: an error that quotes a long value is cut."""
CUT_OFF: Final = "..."
HANDLED_ERRORS: Final[tuple[type[Exception], ...]] = (*TYPE_BY_ERROR, InputFault, HubError)
"""Exceptions that use cases raise and that become problems, base classes last."""


def problem_of(
    error: Exception,
    instance: str = "",
    types: Mapping[type[Exception], ProblemType] = TYPE_BY_ERROR,
) -> Problem:
    """Return the problem that describes an error.

    A value at fault inside a body has status 422, whatever the same value would have as an address.

    ``instance``: URI of the request, empty outside of HTTP. ``types``: problem types by exception.
    """
    if isinstance(error, InputFault):
        cause = error.cause
        problem = describe(problem_type_of(cause, types), cause, instance, error.errors)
        alike = dict.fromkeys(near for each in error.errors for near in each.nearest)
        changed: dict[str, object] = {
            "status": HTTPStatus.UNPROCESSABLE_ENTITY,
            "nearest": list(alike)[:MOST_NEAREST] or None,
        }
        if error.others:
            more = "; ".join(f"{each.pointer}: {each.detail}" for each in error.errors[1:])
            changed["detail"] = _bounded(f"{problem.detail}; {more}", DETAIL_BYTES)
        return problem.model_copy(update=changed)
    with_errors = InvalidRequest | UnknownFlag | RefusedCommand | UnknownParameter
    errors = error.errors if isinstance(error, with_errors) else ()
    return describe(problem_type_of(error, types), error, instance, errors)


def describe(
    kind: ProblemType,
    error: Exception,
    instance: str,
    errors: Iterable[FieldFault] = (),
) -> Problem:
    """Return a problem of a given type, in the error's words; those of an internal error are never shown.

    ``errors``: what is wrong with each value; the first ``MOST_ERRORS`` are shown.
    """
    detail = kind.explanation if kind is INTERNAL_ERROR else _bounded(str(error), DETAIL_BYTES)
    return Problem(
        type=kind.type,
        title=kind.title,
        status=kind.status,
        detail=detail,
        instance=instance,
        errors=[
            FieldError(
                pointer=_bounded(each.pointer, POINTER_BYTES),
                detail=_bounded(each.detail, REASON_BYTES),
                nearest=list(each.nearest) or None,
            )
            for each in islice(errors, MOST_ERRORS)
        ]
        or None,
        nearest=list(getattr(error, "nearest", ()))[:MOST_NEAREST] or None,
        retry_after=getattr(error, "retry_after", None),
    )


def _bounded(text: str, most_bytes: int) -> str:
    """Return a text without secrets and unprintable characters, cut to a number of UTF-8 bytes.

    The text may quote what a caller sent. A lone surrogate, which JSON can hold, cannot be encoded in UTF-8,
    and a control character takes six bytes of JSON.
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
