"""Finds a failure in what is left of a traceback that was cut off before its exception."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from service.startup_log.catalogue.known_words import KnownWords, known_words
from service.startup_log.catalogue.origins import (
    NOWHERE,
    OF_CODE,
    FailureOrigin,
    by_words,
    in_other_package,
    innermost_part,
    likely_origin,
)
from service.startup_log.catalogue.phrases import CAUSES, WRAPPERS
from service.startup_log.catalogue.templates import lines_containing
from service.startup_log.errors.exceptions import QUIET, class_in_task, message_above, raised_by_source
from service.startup_log.errors.harmless_errors import of_other_platforms
from service.startup_log.errors.tracebacks import NEAR, Frame, warns_in_collect_env
from service.startup_log.failures.advice import facts_in
from service.startup_log.failures.cut_tracebacks import last_frame, where_cut
from service.startup_log.failures.logged_failure import (
    Failure,
    is_of_parent,
    is_wrapper,
    of_exception,
    of_known,
    of_line,
)
from service.startup_log.failures.titles import FAULT, explained
from service.startup_log.prose.sentences import tells
from service.startup_log.text.lines import LogLine

_OF_PROGRAM: Final = next(cause for cause in CAUSES if cause.name == "program_fault")
_OF_FACTS: Final = {
    fact: next(cause for cause in CAUSES if cause.name == name)
    for fact, name in {"speculation": "speculation_failed", "sleep": "sleep_mode_failed"}.items()
}
"""Causes that only say with what something failed, by the facts of a text: names of advice.toml."""
OF_WAIT: Final = "the wait for the engine's processes"
_OF_WAITING: Final = ("/vllm/v1/engine/core_client.py", "/vllm/v1/engine/utils.py")
_WAITING: Final = frozenset(
    {"make_async_mp_client", "launch_core_engines", "wait_for_engine_startup", "_wait_for_engine_startup"}
)
_STARTING: Final = (
    "EngineCoreClient.make_async_mp_client(",
    "with launch_core_engines(",
    "wait_for_engine_startup(",
)
"""vLLM 0.8.5 to 0.33.0, v1/engine/: functions of the front end that wait for processes, and their calls."""
OF_NO_DEVICE: Final = frozenset({"no_gpu_visible", "driver_library_not_found"})
"""Causes that say that no device was found, as the engine logs it of each kind that it looks for."""
_FOUND: Final = "detected platform "
"""vLLM 0.7.0 to 0.33.0, platforms/__init__.py: a kind that was found."""


def with_cut_calls(failure: Failure, lines: Sequence[LogLine]) -> Failure:
    """Return a failure with what its words are about, or what the calls of another, cut traceback show."""
    found = explained(failure, lines)
    if found.cause is None and not failure.frames and (at := last_frame(lines)) is not None:
        origin, frames = where_cut(at, lines)
        found = with_calls(failure, replace(of_line(lines[at], origin), frames=frames))
    if found.cause is None and (cause := by_words(found.type, found.message)) is not None:
        own = cause.name == FAULT and in_other_package(found.frames)
        cause = _OF_PROGRAM if own else cause
        return replace(found, cause=cause, origin=FailureOrigin(found.origin.part, cause))
    return _with_fact(found, lines)


def _with_fact(failure: Failure, lines: Sequence[LogLine]) -> Failure:
    """Return an error of Python's own whose place is not known with what the text says it failed with."""
    if failure.cause is not None or failure.frames or failure.type not in OF_CODE:
        return failure
    facts = facts_in(line.text.lower() for line in lines)
    cause = next((each for fact, each in _OF_FACTS.items() if fact in facts), None)
    return failure if cause is None else replace(failure, cause=cause, origin=FailureOrigin("", cause))


def by_cut_calls(failure: Failure, lines: Sequence[LogLine]) -> Failure | None:
    """Return a process that ended with what the calls of a cut traceback below show, if they show a cause."""
    at = last_frame(lines)
    if at is None or lines[at].number < failure.line:
        return None
    origin, frames = where_cut(at, lines)
    if origin.cause is None:
        # The text ends within the traceback, whose end would say why.
        ends = not any(lines_containing([line.text for line in lines[at:]], WRAPPERS))
        left = replace(failure, cause=None, origin=origin, frames=frames, follows=True, cut=True)
        return left if ends and failure.type == "" else None
    return replace(failure, cause=origin.cause, origin=origin, frames=frames, follows=False, cut=True)


def decided_by_message(lines: Sequence[LogLine]) -> Failure | None:
    """Return the failure that a message of a level which reports none decides; ``None`` without any."""
    found = _deciding(_quiet_words(lines), lines)
    return None if found is None else of_known(found, [found], {}, lines)


def _quiet_words(lines: Sequence[LogLine]) -> list[KnownWords]:
    """Return the known words of all levels, but for those of a platform beside the one that is there."""
    other = of_other_platforms(lines)
    return [each for each in known_words(lines, quiet=True) if each.at not in other]


def with_calls(named: Failure, left: Failure) -> Failure:
    """Return an exception that a person names, with the cause that the calls of its cut traceback show."""
    origin = likely_origin(named.type, named.message, left.frames)
    if origin.cause is None:
        return named if left.cause is None else replace(named, cause=left.cause, origin=left.origin)
    return replace(named, cause=origin.cause, origin=origin, frames=left.frames)


def cut_off(lines: Sequence[LogLine], *, complains: bool) -> Failure | None:
    """Return what the frames of a traceback show that was cut off before its exception, else a wrapper.

    ``complains``: a person says that something failed, so that warnings count without a traceback too.
    """
    at = last_frame(lines)
    texts = ["" if line.level in QUIET else line.text for line in lines]
    said = dict.fromkeys(at for at, _ in lines_containing(texts, WRAPPERS))
    wrappers = [lines[at] for at in said if not _is_reported(lines[at])]
    # The statement that raises one has its words too, and so can a title above the calls.
    after = lines[at].number if at is not None else 0
    wrapper = min(
        wrappers,
        key=lambda line: (
            line.text.startswith("raise "),
            line.number <= after,
            not (line.level or line.origin),
        ),
        default=None,
    )
    warned = _warning(_quiet_words(lines), lines)
    if warned is not None and (complains or at is not None or wrapper is not None):
        return of_known(warned, [warned], {}, lines)
    if at is None:
        return None if wrapper is None else _of_task(of_line(wrapper, NOWHERE))
    below = wrapper is not None and wrapper.number > lines[at].number
    raised = None if below else raised_by_source(at, lines)
    if raised is not None and not is_wrapper(raised.message):
        return of_exception(raised, lines)
    origin, frames = where_cut(at, lines)
    if (headed := message_above(at, lines)) is not None and not is_wrapper(headed.message):
        return with_calls(of_exception(headed, lines), replace(of_line(lines[at], origin), frames=frames))
    if not below and origin.cause is None and _waits_for_engine(at, frames, lines):
        return replace(of_line(lines[at], FailureOrigin(OF_WAIT, None)), frames=frames, follows=True)
    if wrapper is not None and origin.cause is None and is_of_parent(wrapper.text):
        # The calls are the parent's, and not those of the process that failed.
        origin = NOWHERE
    return _of_task(replace(of_line(wrapper or lines[at], origin), frames=frames, cut=not below))


def _waits_for_engine(at: int, frames: Sequence[Frame], lines: Sequence[LogLine]) -> bool:
    """Whether calls are those of the front end, which waits for the engine's processes."""
    if any(frame.function in _WAITING and f"/{frame.path}".endswith(_OF_WAITING) for frame in frames[:NEAR]):
        return True
    below = lines[at + 1 : at + 1 + NEAR]
    return any(words in line.text for line in below for words in _STARTING)


def _warning(quiet: Sequence[KnownWords], lines: Sequence[LogLine]) -> KnownWords | None:
    """Return the warning that explains a failure, else a message that decides, of whatever level it is.

    A kind of device that was not found says nothing where another one was.
    """
    warned = (
        each
        for each in quiet
        if each.cause.warned and lines[each.at].level != "INFO" and not warns_in_collect_env(each.at, lines)
    )
    return next(warned, None) or _deciding(quiet, lines)


def _deciding(quiet: Sequence[KnownWords], lines: Sequence[LogLine]) -> KnownWords | None:
    found = any(_FOUND in line.text for line in lines)
    return next(
        (each for each in quiet if each.cause.decides and not (found and each.cause.name in OF_NO_DEVICE)),
        None,
    )


def _of_task(failure: Failure) -> Failure:
    """Return a failure of which only Ray's heading is left with the class that this names."""
    named = class_in_task(failure.message)
    if not named or failure.cause is not None:
        return failure
    said = next(known_words([LogLine(1, named, None)]), None)
    cause = innermost_part(named, ()).cause if said is None else said.cause
    return replace(failure, type=named, cause=cause, follows=cause is None)


def _is_reported(line: LogLine) -> bool:
    """Whether a person's sentence names what a program would say of the failure of another part."""
    if line.level or line.origin:
        return False
    first = min((words for words in WRAPPERS if words in line.text), key=line.text.find)
    return tells(line.text, first)
