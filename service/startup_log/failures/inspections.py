"""Finds the exception for which a model's class could not be imported, above those that only say so."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import Final

from service.startup_log.errors.exceptions import MOST_CHAINED, Raised, raised_in
from service.startup_log.errors.tracebacks import frames_above
from service.startup_log.failures.logged_failure import Failure, is_wrapper, of_exception
from service.startup_log.text.lines import LogLine

INSPECTED: Final = "inspect_failed"
_SAYS_SO: Final = ("failed to be inspected", "Error raised in subprocess", "Error in inspecting")
"""Messages that name no reason: vLLM 0.8.5 to 0.33.0, model_executor/models/registry.py."""
_COMMAND: Final = "CalledProcessError"
"""Class of what Python says of the process in which the class is inspected."""
_REGISTRY: Final = "model_executor/models/registry.py"


def says_no_reason(failure: Failure) -> bool:
    """Whether a failure is an inspection of a model's class that failed, and its message does not say why."""
    return failure.cause is not None and failure.cause.name == INSPECTED and _says_so(failure.message)


def with_inspected(failure: Failure, lines: Sequence[LogLine]) -> Failure:
    """Return a failed inspection of a model's class with the exception that its import raised."""
    if not says_no_reason(failure):
        return failure
    own = (each for each in raised_in(lines) if not (each.in_prose or each.is_empty or each.type == _COMMAND))
    reasons = (each for each in own if not (_says_so(lines[each.at].text) or is_wrapper(lines[each.at].text)))
    passed = (each for each in islice(reasons, MOST_CHAINED) if _passed_registry(each, lines))
    root = next(passed, None)
    if root is None:
        return failure
    found = of_exception(root, lines)
    return replace(failure, type=found.type, message=found.message, line=found.line, frames=found.frames)


def _says_so(text: str) -> bool:
    return any(map(text.__contains__, _SAYS_SO))


def _passed_registry(each: Raised, lines: Sequence[LogLine]) -> bool:
    return any(_REGISTRY in frame.path for frame in frames_above(each.at, lines))
