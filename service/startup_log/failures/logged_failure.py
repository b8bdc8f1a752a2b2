"""The failure of a start, as the lines of its log show it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from service.startup_log.catalogue.engine_errors import ENGINE, engine_error
from service.startup_log.catalogue.known_words import KnownWords
from service.startup_log.catalogue.origins import (
    NOWHERE,
    FailureOrigin,
    agrees,
    in_other_package,
    likely_origin,
    origin_of,
)
from service.startup_log.catalogue.phrases import WRAPPERS, CauseForm, FailureCause
from service.startup_log.catalogue.whole_messages import MAX_MESSAGE, full_message, position_of_whole
from service.startup_log.errors.exceptions import (
    Raised,
    asserted_above,
    class_in,
    hidden_class,
    placed_as,
    stated,
)
from service.startup_log.errors.tracebacks import Frame, crashed_frames, frames_of, native_frames
from service.startup_log.text.lines import LogLine

_ASSERTION: Final = "AssertionError"
"""What an error that wraps another one says of a check without words of its own."""
OF_SYSTEM: Final = "[Errno "
"""The beginning of what the operating system says, in whichever package it is raised."""
HANDLERS: Final = "serving_"
"""Beginning of the names of the engine's files that answer requests: entrypoints/openai/serving_chat.py."""
NEAR: Final = 4
"""Lines below a message on which it goes on, where it was wrapped."""
OF_WORKER: Final = "please check the stack trace above for the root cause"
"""vLLM 0.8.5 to 0.33.0, v1/executor/multiproc_executor.py: what the engine says of a worker's own error."""
OF_PARENT: Final = (
    "WorkerProc initialization failed",
    "Engine core initialization failed",
    "Engine process failed to start",
)
"""vLLM 0.7.0 to 0.33.0, v1/executor/multiproc_executor.py, v1/engine/utils.py: what a process raises when
another one that it started does not come up."""
IMPORTS: Final = frozenset({"ImportError", "ModuleNotFoundError"})
"""Classes of which a library's words alone do not say whether a package is absent or of another version."""
_OF_PERSON: Final = re.compile(r"[.?!] |[^\x00-\x7f]")
"""What is in sentences of people: an end of one, or other letters than those of a program's messages."""


@dataclass(frozen=True, slots=True)
class Said:
    """A cause that a person's words describe beside the program's own, which do not show it."""

    cause: FailureCause
    words: str
    line: int
    """Number of its line in the log, counted from 1."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The failure of a start."""

    type: str
    """Class of the exception; empty if the log does not state it."""
    message: str
    """The engine's own message, at most ``MAX_MESSAGE`` characters."""
    line: int
    """Number of its line in the log, counted from 1."""
    cause: FailureCause | None
    """``None`` if the message is unknown."""
    values: Mapping[str, float | str]
    """Values in the message, by name."""
    paraphrased: bool = False
    """The message was written by a person, not by the engine."""
    serving: bool = False
    """The engine had started and served when it failed."""
    follows: bool = False
    """The message only says that something else failed, and the log does not show what."""
    origin: FailureOrigin = NOWHERE
    """Where an exception whose words are not known was raised."""
    source: str = ""
    """Release, file and function of the engine that raise it, where its words alone show them."""

    frames: tuple[Frame, ...] = ()
    """Calls of its traceback, the innermost first."""
    raised_in: Frame | None = None
    """The engine's function that raises it, where its words alone show it."""
    request: bool = False
    """The engine logged it while it answered a request."""
    cut: bool = False
    """The text ends within its traceback, above the exception."""

    starting: bool = False
    """Calls near its line are such as only a start makes."""
    hidden: str = ""
    """Class of the true error, whose own message was lost when the engine raised it again."""

    answers: bool = False
    """The server answered later requests, if only that they failed."""
    ended: bool = False
    """The engine ended with what else only refuses a request."""
    hangs: bool = False
    """It goes on, and nothing more happens: a process waits for one that does not answer."""
    form: CauseForm | None = None
    """The form of the cause that this message, its traceback and the rest of the log show."""
    facts: frozenset[str] = frozenset()
    """What the rest of the log tells of its start, by names of advice.toml."""
    said: Said | None = None
    """What a person says of it, where the program's own words show no cause."""
    draft: bool = False
    """The draft of speculative decoding was being loaded, after the model itself."""
    part_alone: bool = False
    """A person names what failed, and nothing of why, so that the cause is only the nearest one."""

    @property
    def refused(self) -> bool:
        """Whether a running engine refused a request, so that neither its start nor the engine failed."""
        return not self.ended and (self.request if self.cause is None else self.cause.of_request)

    @property
    def by_origin(self) -> bool:
        """Whether the cause is known by where the exception was raised, and not by its words."""
        return self.cause is not None and self.cause is self.origin.cause

    @property
    def by_place(self) -> bool:
        """Whether only the place of an exception shows its cause, and not what it says."""
        if not self.by_origin or self.origin.named:
            return False
        return not agrees(self.type, self.message, self.frames, self.origin)


def is_wrapper(text: str) -> bool:
    """Whether a text only says that something else failed."""
    return any(map(text.__contains__, WRAPPERS))


def is_of_parent(text: str) -> bool:
    """Whether a text only says that a process which this one started has failed, whose error stands above."""
    return any(map(text.__contains__, OF_PARENT))


def of_known(
    root: KnownWords, others: Sequence[KnownWords], raised: Mapping[int, Raised], lines: Sequence[LogLine]
) -> Failure:
    """Return a known failure in the words of the exception, if the log has it too."""
    same = [each for each in others if each.cause == root.cause]
    shown = root.at
    if shown not in raised or raised[shown].in_prose:
        shown = next(
            (each.at for each in same if each.at in raised and not raised[each.at].in_prose),
            position_of_whole(root, same, lines),
        )
    exception, line = raised.get(shown), lines[shown]
    values = {**_values_near(shown, same), **root.values}
    if exception is None:
        words = stated(line.text).strip("` ")
        words = full_message(words, lines, shown)
        shown_type = class_in(root.cause.type, words)
        frames = native_frames(shown, lines) or crashed_frames(shown, lines)
        own = _behind_class(shown_type, words)
        return Failure(shown_type, own, line.number, root.cause, values, frames=frames)
    message = _message(exception, lines)
    frames = (*native_frames(shown, lines), *frames_of(shown, lines))
    return Failure(exception.type, message, line.number, root.cause, values, frames=frames)


def _behind_class(type_name: str, words: str) -> str:
    """Return the message behind the class of an exception that a person's sentence ends with.

    What a program writes before it, as pip does, belongs to the message.
    """
    said, _, rest = words.partition(f"{type_name}: ") if type_name else (words, "", "")
    return rest if rest and _OF_PERSON.search(said) else words


def _values_near(at: int, same: Sequence[KnownWords]) -> Mapping[str, float | str]:
    """Return the values in the words of a cause on a line, and on the lines below that go on with it."""
    near = sorted((each for each in same if at <= each.at <= at + NEAR), key=lambda each: -each.at)
    return {name: value for each in near for name, value in each.values.items()}


def _message(raised: Raised, lines: Sequence[LogLine]) -> str:
    """Return the message of an exception; of a check without words of its own, what it checked."""
    message = full_message(raised.message, lines, raised.at)
    if message.rstrip(": ").removesuffix(_ASSERTION):
        return message
    asserted = asserted_above(raised.at, lines)
    return f"{message} {asserted}".strip() if asserted else message


def of_exception(root: Raised, lines: Sequence[LogLine]) -> Failure:
    """Return a failure whose words are not known, with where it was raised."""
    message = _message(root, lines)
    frames, source = frames_of(root.at, lines), ""
    hidden = hidden_class(root.type, message)
    origin, raised_in = likely_origin(hidden or placed_as(root.type, message), message, frames), None
    known = None if message.startswith(OF_SYSTEM) else engine_error(root.type, message)
    if known is not None and in_other_package(frames) and not _passes(known.package, frames):
        # Another program's own words, which the engine or a library happens to use too.
        known = None
    if origin.cause is None and (error := known) is not None:
        # The frames of a traceback that was cut begin far above the place where it was raised.
        raised_in = error.frame
        raised_at = origin_of(root.type, (raised_in, *frames))
        unsure = error.package != ENGINE and error.type in IMPORTS
        source = error.source
        named = agrees(root.type, message, (raised_in,), raised_at)
        origin = replace(raised_at, cause=None if unsure else raised_at.cause, named=named)
    line = lines[root.at]
    return Failure(
        root.type,
        message,
        line.number,
        origin.cause,
        {},
        origin=origin,
        source=source,
        frames=frames,
        raised_in=raised_in,
        request=is_of_request(line),
        hidden=hidden,
        follows=origin.cause is None and OF_WORKER in message,
    )


def _passes(package: str, frames: Sequence[Frame]) -> bool:
    return any(f"/{package}/" in f"/{each.path}" for each in frames)


def of_line(line: LogLine, origin: FailureOrigin) -> Failure:
    """Return a failure of which a log has a line, but no exception."""
    return Failure(
        "",
        line.text[:MAX_MESSAGE],
        line.number,
        origin.cause,
        {},
        follows=origin.cause is None,
        origin=origin,
        request=is_of_request(line),
    )


def is_of_request(line: LogLine) -> bool:
    """Whether a line was logged while the engine answered a request."""
    return line.origin is not None and line.origin[0].rpartition("/")[2].startswith(HANDLERS)
