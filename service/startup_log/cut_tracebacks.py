"""Says what failed where a traceback was cut off before its exception, by the calls that are left."""

from collections.abc import Sequence
from typing import Final

from service.startup_log.engine_errors import EngineError, errors_of_check
from service.startup_log.known_classes import file_of
from service.startup_log.known_words import known_words
from service.startup_log.lines import LogLine
from service.startup_log.origins import FailureOrigin, cut_part, origin_of, passed_part
from service.startup_log.phrases import FailureCause
from service.startup_log.tracebacks import Frame, call_below, frames_above

CUT: Final = "cut"
"""Stands for the class of the exception in a table of causes that names one for it."""
ANY_FAULT: Final = "ValueError"
"""The class that stands for an exception which the log does not show."""
SOME: Final = "1"
"""A value in a message of which only the fixed parts are known."""


def calls_left(at: int, lines: Sequence[LogLine]) -> tuple[Frame, ...]:
    """Return the frames down to a line, the innermost first, and the call that the source below it shows."""
    frames = frames_above(at + 1, lines)
    call = call_below(at, lines)
    return (Frame(file_of(call) or frames[0].path, call), *frames) if call and frames else frames


def origin_of_cut(frames: Sequence[Frame]) -> FailureOrigin:
    """Return what failed, where only one thing can fail in the calls that are left, else only the part.

    Of an exception that is cut off, only the calls that it passed are known, and not where it was raised.
    """
    origin = passed_part(CUT, frames) or passed_part(ANY_FAULT, frames) or cut_part(frames)
    if origin is not None:
        return origin
    part = origin_of("", frames).part
    causes = {each.name: each for frame in frames[:2] for each in _causes_of_check(frame)}
    return FailureOrigin(part, next(iter(causes.values())) if len(causes) == 1 else None)


def _causes_of_check(frame: Frame) -> list[FailureCause]:
    """Return the causes of all errors that one check of the engine raises; none for any other function."""
    errors = errors_of_check(frame.function)
    causes = [_cause_of(each) for each in errors]
    return [each for each in causes if each is not None] if all(causes) else []


def _cause_of(error: EngineError) -> FailureCause | None:
    said = next(iter(known_words([LogLine(1, SOME.join(error.parts), None)])), None)
    if said is not None and not said.cause.weak and not said.cause.parts:
        return said.cause
    return origin_of(error.type, (Frame(f"{error.package}/{error.file}", error.function),)).cause
