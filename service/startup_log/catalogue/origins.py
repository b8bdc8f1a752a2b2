"""Says in which part of the engine, or of what it uses, an exception was raised, and what that means."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from service.bundled_toml import read_toml
from service.startup_log.catalogue.added_files import is_of_no_release
from service.startup_log.catalogue.parts import Part, part_of
from service.startup_log.catalogue.phrases import CAUSES, FailureCause
from service.startup_log.errors.exceptions import PYTHON_WORDS, is_check, placed_as
from service.startup_log.errors.known_classes import (
    is_model_type,
    places_mentioned,
    places_named,
)
from service.startup_log.errors.tracebacks import NATIVE_FILE, Frame
from service.startup_log.text.pytest_reports import tests_own


@dataclass(frozen=True, slots=True)
class FailureOrigin:
    """Where an exception was raised."""

    part: str
    """In words; empty where the log does not say it."""
    cause: FailureCause | None
    """What an exception of this class means there; ``None`` where it can mean anything."""
    named: bool = False
    """The message itself names the part, or has words that show the cause."""


OF_STANDARD_LIBRARY: Final = "Python's own library"
"""The part of what belongs to Python itself, which raises what it is given to read or to run."""
LEAST_REASON: Final = 3
"""Words of a message that gives a reason at least."""
OF_CODE: Final = frozenset(
    {
        *("AttributeError", "TypeError", "KeyError", "IndexError", "NameError", "UnboundLocalError"),
        *("ZeroDivisionError", "RecursionError", "UnicodeDecodeError"),
    }
)
"""Classes of errors that Python raises of code which does not fit: they say nothing of a reason."""
_REFUSALS: Final = frozenset({"ValueError", "RuntimeError", "AssertionError"})
_UNNAMED: Final = frozenset({"AttributeError", "NameError", "UnboundLocalError"})
"""Classes of errors of code that names what is not there, whatever the engine was asked for."""
"""Classes with which a program refuses what it was given, whichever part it is."""
CHECK: Final = "check"
"""Stands in a table of causes for an AssertionError that has only the source of its check as a message."""
NOWHERE: Final = FailureOrigin("", None)
"""The origin of an exception of which the log holds no frame, and whose words no release has."""


def origin_of(type_name: str, frames: Sequence[Frame]) -> FailureOrigin:
    """Return the origin of an exception by the frames of its traceback, the innermost first.

    A call that all exceptions of one kind pass, such as the loading of weights, comes before the innermost
    part, which is often a library that only carries out what it was asked.
    """
    if (passed := passed_part(type_name, frames)) is not None:
        return passed
    return innermost_part(type_name, frames)


def likely_origin(type_name: str, message: str, frames: Sequence[Frame]) -> FailureOrigin:
    """Return the origin of an exception: a call that it passed, whose code it is about, or its place."""
    if type_name == KEY_ERROR and is_model_type(message):
        return _MODEL_TYPES
    if (cause := _said(type_name, message, _FIRST, frames)) is not None:
        return FailureOrigin(
            (passed_part(type_name, frames) or innermost_part(type_name, frames)).part, cause, named=True
        )
    return (
        passed_part(type_name, frames)
        or owner_of(type_name, message)
        or native_part(type_name, message)
        or own_part(type_name, frames)
        or _checking_part(message, frames)
        or _modified_part(type_name, message, frames)
        or innermost_part(type_name, frames)
    )


def _checking_part(message: str, frames: Sequence[Frame]) -> FailureOrigin | None:
    """Return the innermost part with what a failed check without words means there, if it says so."""
    # A check of what is supported has its words in a name.
    part = next(_parts_of(frames), None) if is_check(message) and "support" not in message else None
    cause = None if part is None else part.causes.get(CHECK)
    return None if part is None or cause is None else FailureOrigin(part.name, cause)


def _modified_part(type_name: str, message: str, frames: Sequence[Frame]) -> FailureOrigin | None:
    """Return a file that no release of the engine has, where it refuses something or lacks what it names."""
    refuses = type_name in _REFUSALS and gives_reason(type_name, message)
    if not frames or not (refuses or type_name in _UNNAMED):
        return None
    if not is_of_no_release(frames[0].path, (each.path for each in frames[1:])):
        return None
    return _MODIFIED if refuses else _MODIFIED_FAULT


def innermost_part(type_name: str, frames: Sequence[Frame]) -> FailureOrigin:
    """Return the innermost part that the frames show, with the cause of the first that gives one."""
    first: FailureOrigin | None = None
    for part in _parts_of(frames):
        cause = _cause_of(type_name, part)
        first = first or FailureOrigin(part.name, None)
        if cause is not None:
            return FailureOrigin(first.part, cause)
    return FailureOrigin((first or NOWHERE).part, _ANYWHERE.get(type_name))


def owner_of(type_name: str, message: str) -> FailureOrigin | None:
    """Return the owner of the class or the function that a message of Python's own names.

    Where several files have the name, they must agree on what it means.
    """
    if type_name == KEY_ERROR and is_model_type(message):
        return _MODEL_TYPES
    owners = {part.name: part for part in map(_owner, places_named(message)) if part is not None}
    causes = {name: _cause_of(type_name, part) for name, part in owners.items()}
    if len({cause.name if cause is not None else "" for cause in causes.values()}) != 1:
        return None
    name, cause = next(iter(causes.items()))
    return None if cause is None else FailureOrigin(name, cause, named=True)


def mentioned_part(text: str) -> FailureOrigin | None:
    """Return the part whose code a sentence names beside the class of an exception."""
    named = _CLASS.search(text)
    if named is None:
        return None
    frames = frames_mentioned(text)
    found = passed_part(named[0], frames) or innermost_part(named[0], frames)
    return None if found.cause is None or not found.part else found


def frames_mentioned(text: str) -> tuple[Frame, ...]:
    """Return the places whose code a sentence names, as calls; those of a file with a function first."""
    exact = (Frame(found[1], found[2]) for found in _IN_FILE.finditer(text[:MOST_OF_MESSAGE]))
    places = places_mentioned(text)
    return (*exact, *(Frame(path, word) for word, paths in places for path in paths or ("",)))


def native_part(type_name: str, message: str) -> FailureOrigin | None:
    """Return the part whose file of C++ or CUDA a message names."""
    for place in NATIVE_FILE.finditer(message[:MOST_OF_MESSAGE]):
        for part in _NATIVE:
            if part.holds(Frame(place[0], "")) and (cause := _cause_of(type_name, part)) is not None:
                return FailureOrigin(part.name, cause, named=True)
    return None


def asserted_part(text: str) -> FailureOrigin | None:
    """Return the part whose own check of C++ failed, as a text says anywhere."""
    return native_part("", text[text.find(ASSERTED) :]) if ASSERTED in text else None


def own_part(type_name: str, frames: Sequence[Frame]) -> FailureOrigin | None:
    """Return the program that calls the engine, where its own code raised an error of Python."""
    if type_name == "AssertionError" and frames and tests_own(frames[0].path):
        return _TEST
    if type_name == "JSONDecodeError" and _is_read_by_test(frames):
        return _READ_BY_TEST
    if not frames or not _is_own(frames[0]) or _are_cut(frames):
        return None
    cause = _OWN.causes.get(type_name)
    return None if cause is None else FailureOrigin(_OWN.name, cause)


def _are_cut(frames: Sequence[Frame]) -> bool:
    """Whether the text has lost the folders of the calls, so that a file's name does not say whose it is."""
    bare = [each.path for each in frames if each.path and not each.path.startswith(("<", OF_ENGINE[1:]))]
    return len(set(bare)) > 1 and not any("/" in each or "\\" in each for each in bare)


def _is_read_by_test(frames: Sequence[Frame]) -> bool:
    """Whether a test gave a text to Python's reader of JSON, which is then an answer of the engine."""
    caller = next((frame for frame in frames if _OF_JSON not in f"/{frame.path}"), None)
    return caller is not None and tests_own(caller.path)


def in_other_package(frames: Sequence[Frame]) -> bool:
    """Whether an exception was raised in a package that is no part of the engine or of what it uses."""
    if not frames or not any(each in frames[0].path for each in ("/site-packages/", "/dist-packages/")):
        return False
    part = next(_parts_of(frames[:1]), None)
    return part is None or part.name == OF_STANDARD_LIBRARY


def _is_own(frame: Frame) -> bool:
    """Whether a frame is in no package and in no part of the engine or of what it uses."""
    path = f"/{frame.path}"
    if not frame.path or any(map(path.__contains__, _OWN.files)):
        return False
    return not any(part.files and part.holds(frame) for part in (*_PASSED, *_PARTS))


def _owner(path: str) -> Part | None:
    return next((each for each in _OWNERS if each.holds(Frame(path, ""))), None)


def passed_part(type_name: str, frames: Sequence[Frame]) -> FailureOrigin | None:
    """Return the origin of an exception that passed a call which all exceptions of one kind pass."""
    for part in _PASSED:
        if frames and (cause := _cause_of(type_name, part)) and part.has_raised(frames):
            return FailureOrigin(part.name, cause)
    return None


def cut_part(frames: Sequence[Frame]) -> FailureOrigin | None:
    """Return the origin of an exception that was cut off, where the calls alone show what failed."""
    for part in _CUT:
        if (cause := _cause_of("", part)) and any(part.holds(frame) for frame in frames):
            return FailureOrigin(part.name, cause)
    return None


def step_of(frames: Sequence[Frame]) -> str:
    """Return the step of the start that the calls of a cut traceback show, in words; empty for none."""
    named = (part.name for frame in frames for part in _STEPS if part.holds(frame))
    return next(named, "")


def milestone_of(frames: Sequence[Frame]) -> str:
    """Return the milestone that a start had reached when it made these calls; empty where they do not say."""
    called = {frame.function for frame in frames}
    return next((name for name, functions in _REACHED if not functions.isdisjoint(called)), "")


def milestone_said(text: str) -> str:
    """Return the milestone that a start had reached, by a step that a sentence names; empty for none."""
    return next((name for name, functions in _REACHED if any(map(text.__contains__, functions))), "")


def is_starting(frames: Sequence[Frame]) -> bool:
    """Whether the calls are of a start: one of the engine's own that only a start makes, or a step of it."""
    own = (each for each in frames if OF_ENGINE in f"/{each.path}")
    return milestone_of(frames) != "" or any(each.function in _STARTING for each in own)


def by_words(type_name: str, message: str) -> FailureCause | None:
    """Return what an exception shows whose place is not known; ``None`` for one that can mean anything."""
    return _said(type_name, message, _WORDS)


def agrees(type_name: str, message: str, frames: Sequence[Frame], origin: FailureOrigin) -> bool:
    """Whether the message of an exception says by itself why, and its part raised it itself.

    Python's own errors, and checks without words, name no reason; what a library below a part raises need not
    be of the part's kind.
    """
    if not gives_reason(type_name, message):
        return False
    return not frames or any(
        each.name == origin.part and each.holds(frames[0]) and _cause_of(type_name, each) is origin.cause
        for each in (*_PASSED, *_PARTS)
    )


def gives_reason(type_name: str, message: str) -> bool:
    """Whether the message of an exception says why, as those do that somebody wrote."""
    if type_name in OF_CODE or placed_as(type_name, message) != type_name or is_check(message):
        return False
    return len(message.split()) >= LEAST_REASON and not any(words in message for words, _ in PYTHON_WORDS)


def _said(
    type_name: str, message: str, tables: Sequence[Mapping[str, Any]], frames: Sequence[Frame] = ()
) -> FailureCause | None:
    for each in tables:
        denied = "unless" in each and each["unless"] in message
        placed = "files" not in each or any(name in f"/{at.path}" for at in frames for name in each["files"])
        said = placed and not denied and any(words in message for words in each["says"])
        if said and type_name in each["types"]:
            return _BY_NAME[each["cause"]]
    return None


def meaning_of(type_name: str) -> str:
    """Return what exceptions of a class mean in general; empty for a class that can mean anything."""
    return _MEANINGS.get(type_name, "")


def _cause_of(type_name: str, part: Part) -> FailureCause | None:
    return part.causes.get(type_name) or part.causes.get("*")


def _parts_of(frames: Sequence[Frame]) -> Iterator[Part]:
    """Yield the part of each frame, the innermost first."""
    for at, frame in enumerate(frames):
        part = next((each for each in _PARTS if each.holds(frame)), None)
        if part is not None and part.counts(at, frame):
            yield part


_IN_FILE: Final = re.compile(r"\b([\w/.-]{3,120}\.py):(?:\d{1,5}\)? \(|:?)([a-z_]\w{2,80})\b", re.ASCII)
"""A function of a file as people write it: gpu_model_runner.py:execute_model, scheduler.py:386 (schedule)."""
_CLASS: Final = re.compile(r"\b[A-Z]\w{1,60}(?:Error|Exception)\b", re.ASCII)
_ORIGINS: Final = read_toml("service.startup_log.catalogue", "origins.toml")
_PASSED: Final = tuple(map(part_of, _ORIGINS["passed"]))
_CUT: Final = tuple(map(part_of, _ORIGINS["cut"]))
_PARTS: Final = tuple(map(part_of, _ORIGINS["part"]))
BY_PART: Final[Mapping[str, Part]] = {part.name: part for part in (*_PASSED, *_PARTS)}
_STEPS: Final = tuple(map(part_of, _ORIGINS["step"]))
_REACHED: Final = tuple(
    (name, frozenset(functions)) for name, functions in _ORIGINS["reached"]["functions"].items()
)
"""The last milestone before each step of a start, with the functions of the step, the last step first."""
OF_ENGINE: Final = "/vllm/"
"""Part of the path of each of the engine's files."""
WARM_UP: Final = frozenset(
    each for name in ("capture", "cache", "profiling") for each in _ORIGINS["reached"]["functions"][name]
)
"""Functions of a start that run steps of the scheduler with made-up requests."""
_STARTING: Final = frozenset(_ORIGINS["starting"]["functions"])
_WORDS: Final[Sequence[Mapping[str, Any]]] = _ORIGINS["words"]
_FIRST: Final[Sequence[Mapping[str, Any]]] = [each for each in _WORDS if each.get("first")]
_BY_NAME: Final = {cause.name: cause for cause in CAUSES}
_NATIVE: Final = tuple(map(part_of, _ORIGINS["native"]))
MOST_OF_MESSAGE: Final = 600
"""Characters of a message in which files are looked for."""
ASSERTED: Final = "INTERNAL ASSERT FAILED at"
"""What PyTorch writes of a check of its own: c10/util/Exception.h."""
_OWN: Final = part_of(_ORIGINS["own"])
_TEST: Final = FailureOrigin("a test", _BY_NAME["test_not_passed"])
_READ_BY_TEST: Final = FailureOrigin("a test", _BY_NAME["answer_not_json"])
_OF_JSON: Final = "/json/"
"""Part of the paths of Python's reader of JSON, which its caller gave the text."""
_MODIFIED: Final = FailureOrigin(
    "a file that no release of the engine has", _BY_NAME["modified_engine_refuses"], named=True
)
_MODIFIED_FAULT: Final = FailureOrigin(_MODIFIED.part, _BY_NAME["modified_engine_faulty"], named=True)
_OWNERS: Final = tuple(map(part_of, _ORIGINS["owner"]))
KEY_ERROR: Final = "KeyError"
_MODEL_TYPES: Final = FailureOrigin(
    "the transformers library",
    next(cause for cause in CAUSES if cause.name == "unknown_architecture"),
    named=True,
)
_ANYWHERE: Final[Mapping[str, FailureCause]] = {
    name: cause
    for table in _ORIGINS["meaning"]
    for cause in CAUSES
    if cause.name == table.get("cause")
    for name in table["types"]
}
"""Causes of exceptions that mean the same wherever they are raised."""
_MEANINGS: Final[Mapping[str, str]] = {
    name: table["means"] for table in _ORIGINS["meaning"] for name in table["types"]
}
