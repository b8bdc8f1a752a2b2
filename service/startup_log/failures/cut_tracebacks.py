"""Says what the calls of a traceback show that was cut off before its exception."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from service.startup_log.catalogue.engine_errors import EngineError, errors_of_check
from service.startup_log.catalogue.known_words import known_words
from service.startup_log.catalogue.origins import FailureOrigin, cut_part, origin_of, passed_part, step_of
from service.startup_log.catalogue.phrases import FailureCause
from service.startup_log.errors.exceptions import QUIET
from service.startup_log.errors.tracebacks import (
    HEADER,
    NEAR,
    Frame,
    calls_below,
    frame_of_engine,
    frames_above,
    ignored_calls,
)
from service.startup_log.text.lines import LogLine

CUT: Final = "cut"
"""Stands in a table of causes for an exception that was cut off."""
ANY_FAULT: Final = "ValueError"
"""The class that stands for an exception which the log does not show."""
SOME: Final = "1"
"""A value in a message of which only the fixed parts are known."""
MOST_ENDS: Final = 8
"""Tracebacks whose last calls are looked at."""


def last_frame(lines: Sequence[LogLine]) -> int | None:
    """Return the position of the engine's last frame, of no ignored exception; ``None`` without any.

    A warning that shows the calls of an exception has handled it.
    """
    ignored = ignored_calls(lines)
    places = (
        at for at in range(len(lines) - 1, -1, -1) if at not in ignored and lines[at].level not in QUIET
    )
    return next((at for at in places if frame_of_engine(at, lines)), None)


def where_cut(last: int, lines: Sequence[LogLine]) -> tuple[FailureOrigin, tuple[Frame, ...]]:
    """Return the origin that the last calls show, with these: of the first traceback that shows one.

    Several processes write theirs: that of a worker says more than that of the core which waits for it.
    Of an exception that is cut off, only the calls that it passed are known, and not where it was raised.
    """
    frames: tuple[Frame, ...] = ()
    for at in (*islice(_ends(last, lines), MOST_ENDS), last):
        frames = (*calls_below(at, lines), *frames_above(at + 1, lines))
        found = passed_part(CUT, frames) or passed_part(ANY_FAULT, frames) or cut_part(frames)
        if found is not None:
            return found, frames
    return FailureOrigin(step_of(frames) or origin_of("", frames).part, _of_checks(frames)), frames


def _of_checks(frames: Sequence[Frame]) -> FailureCause | None:
    """Return the cause of all errors of the check in which a traceback ends, or which its source calls."""
    causes = [_cause_of(error) for frame in frames[:NEAR] for error in errors_of_check(frame.function)]
    names = {"" if each is None else each.name for each in causes}
    return causes[0] if len(names) == 1 else None


def _cause_of(error: EngineError) -> FailureCause | None:
    said = next(iter(known_words([LogLine(1, SOME.join(error.parts), None)])), None)
    if said is not None and not said.cause.weak and not said.cause.parts:
        return said.cause
    return origin_of(error.type, (Frame(f"{error.package}/{error.file}", error.function),)).cause


def _ends(last: int, lines: Sequence[LogLine]) -> Iterator[int]:
    """Yield the position of the last frame of each traceback that another one follows."""
    end: int | None = None
    for at in range(last + 1):
        if end is not None and HEADER in lines[at].text:
            yield end
            end = None
        elif frame_of_engine(at, lines):
            end = at
