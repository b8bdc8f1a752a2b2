"""Weighs what a person says of a failure against what is left of the program's own words."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from service.startup_log.catalogue.origins import OF_ENGINE
from service.startup_log.catalogue.phrases import FailureCause
from service.startup_log.catalogue.whole_messages import MAX_MESSAGE
from service.startup_log.errors.exceptions import HEADINGS, Raised, class_of_words
from service.startup_log.errors.tracebacks import frame_of
from service.startup_log.failures.described_failures import in_words, of_sentence
from service.startup_log.failures.left_of_tracebacks import cut_off, with_calls, with_cut_calls
from service.startup_log.failures.logged_failure import Failure, is_wrapper, of_exception
from service.startup_log.failures.titles import (
    BEFORE_THE_ENGINE,
    ENDED,
    FAULT,
    HANGING,
    as_described,
    beside,
    quotes_error,
    said_by,
)
from service.startup_log.prose.complaints import FAILING
from service.startup_log.prose.sentences import LONGEST, MOST_OF_TITLE, plain_words, sentences
from service.startup_log.prose.symptoms import HANG, described, says_hang
from service.startup_log.text.lines import LogLine

INTERRUPTED: Final = "interrupted"
"""The cause of a process that a person or a supervisor ended."""
SETTINGS: Final = "settings_refused"
"""The cause of a check whose reason its calls do not show."""

UNANSWERED: Final = "request_failed"
"""The cause that says only that a request was not answered, as a client of an engine that hangs sees too."""
WAITING: Final = frozenset({*HANGING, "start_timed_out"})
"""Causes of a process that did not end, after which its parent has an error of its own alone."""
DUMPED: Final = "Dumping input data for V1 LLM engine"
"""vLLM 0.9.0 to 0.33.0, logging_utils/dump_input.py: a step failed or took too long, whatever the reason."""
LEAST_QUOTED: Final = 4
"""Words of a message in a row that a title quotes."""
WARNING: Final = "WARNING"
"""The level of what the engine goes on without."""
_WARNED_ERROR: Final = re.compile(r"\b(?:error|exception|failed)(?: \w{1,20}){0,3}: (\S.*)", re.IGNORECASE)
"""What a warning says of an error."""


def of_people(roots: Sequence[Raised], lines: Sequence[LogLine]) -> Failure | None:
    """Return a failure that a person describes, or what is left of a traceback that says more.

    A class of Python's own in a title, such as an AssertionError, says that the engine failed only where no
    calls of another program stand below it.
    """
    found = _of_people(roots, lines)
    if found is None or found.cause is None or not (found.paraphrased and found.follows):
        return found
    calls = [frame for line in lines if (frame := frame_of(line)) is not None]
    others = bool(calls) and not any(OF_ENGINE in f"/{frame.path}" for frame in calls)
    return replace(found, cause=None) if others and found.cause.name == FAULT else found


def _of_people(roots: Sequence[Raised], lines: Sequence[LogLine]) -> Failure | None:
    """Return what a person says, or what is left of a traceback."""
    vague = all(each.type in HEADINGS for each in roots)
    words = of_sentence(lines) or in_words(lines) if vague else None
    if words is None and roots:
        words = with_cut_calls(of_exception(roots[0], lines), lines)
    if words is not None and not words.paraphrased and words.cause is not None:
        return words
    if words is not None and words.paraphrased and (warned := of_warned_error(words, lines)) is not None:
        return warned
    left = cut_off(lines, complains=words is not None)
    if words is not None and left is None and words.part_alone and is_wrapper(words.message):
        # A title names a device beside an error that only follows from another one.
        return replace(words, cause=None, part_alone=False)
    if words is None or left is None:
        return left or words
    return left if _only_names(words) and _is_left_of_engine(left) else _surer(words, left, lines)


def of_warned_error(words: Failure, lines: Sequence[LogLine]) -> Failure | None:
    """Return an error of Python's own that a part of the engine only warns of, beside a person's complaint.

    A part that goes on without what failed logs it so: `put error: zip() argument 2 is shorter`.
    """
    for line in lines:
        if line.level != WARNING or (found := _WARNED_ERROR.search(line.text)) is None:
            continue
        if class_of_words(found[1]):
            return replace(words, message=line.text[:MAX_MESSAGE], line=line.number, paraphrased=False)
    return None


def _surer(words: Failure, left: Failure, lines: Sequence[LogLine]) -> Failure:
    """Return what a person says, or what is left of the program's own words where that is the surer."""
    if not words.paraphrased and words.type:
        return with_calls(words, left)
    if words.paraphrased and (beside := _program_s_own(words, left, lines)) is not None:
        return beside
    if left.type and left.cause is not None:
        # The source below the last call raises an exception by its class.
        return left
    if words.cause is None:
        only_ended = left.cause is None or left.cause.name in ENDED
        return words if only_ended and is_wrapper(left.message) and quotes_error(words.message) else left
    # What is left of a traceback says more than prose, or than a title that says only what happened.
    title = words.line <= next((line.number for line in lines if line.text), 0)
    title = title and not (words.cause.weak or words.cause.name in BEFORE_THE_ENGINE)
    if left.cause is None or ((title or not left.frames) and not words.follows):
        return replace(words, cut=bool(left.frames) and left.cut)
    return left


def _only_names(words: Failure) -> bool:
    """Whether a person names no more than a part or a device, or a class of Python's own."""
    if not words.paraphrased or words.cause is None:
        return False
    return words.part_alone or (words.follows and words.cause.name == FAULT)


def _is_left_of_engine(left: Failure) -> bool:
    """Whether only a wrapper, or calls of the engine, are left of a traceback."""
    paths = (frame.path.rpartition("/lib/python")[2] for frame in left.frames)
    cut = left.cut and any(OF_ENGINE in f"/{path}" for path in paths)
    return left.cause is None and (cut or is_wrapper(left.message))


def _program_s_own(words: Failure, left: Failure, lines: Sequence[LogLine]) -> Failure | None:
    """Return what the program says, where it comes before a person's words; ``None`` where it does not.

    So do messages that decide, the front end's error, and calls beside words that are only those of a model's
    name, of a hang in which the program logged an error, or of what a running engine does where they show how
    one failed.
    """
    quotes = quotes_error(words.message)
    decides = left.cause is not None and left.cause.decides
    waits = words.cause is not None and words.cause.name in WAITING
    follows = left.cause is None and is_wrapper(left.message) and not (quotes or waits)
    if not words.type and (decides or follows):
        return _beside_words(left, lines)
    if words.cause is None or not left.frames or quotes:
        return None
    beside = _beside_words(left, lines)
    hangs = words.cause.name in HANGING and left.cause is None and _is_error(left, lines)
    called = left.cause if left.cause is left.origin.cause else None
    if words.cause.of_request and called is not None and not (called.weak or called.name == SETTINGS):
        return beside
    return beside if hangs or (beside.said is None and (left.cause is not None or left.cut)) else None


def _is_error(failure: Failure, lines: Sequence[LogLine]) -> bool:
    """Whether the program logs what is left of its traceback as an error; a dump of a stack is none."""
    return any(line.level in FAILING for line in lines if line.number == failure.line)


def _beside_words(failure: Failure, lines: Sequence[LogLine]) -> Failure:
    """Return what the program says, with the cause that a person describes."""
    found = described(sentences(lines), counts=beside(lines))
    if found is None or found.cause is None or found.general or quotes_error(found.sentence.text):
        return failure
    return replace(failure, said=said_by(found, found.cause))


def of_hang(found: Failure | None, lines: Sequence[LogLine]) -> Failure | None:
    """Return a failure with whether the engine hangs, as a person says.

    A process that hangs raises nothing: what a log under such a title reports as an error, without an
    exception, did not end it.
    """
    if found is not None and found.cause is not None and found.cause.name == INTERRUPTED:
        return _of_interrupted_hang(found, lines)
    if found is None or found.cause is None:
        return found
    if found.type:
        unanswered = found.cause.name == UNANSWERED and not found.frames
        return (_of_titled_hang(lines) if unanswered else None) or found
    if DUMPED in found.message and (hang := _of_titled_hang(lines)) is not None:
        return hang
    return found if found.cause.name in ENDED or _is_cut(found) else _of_hang(found, found.cause, lines)


def _of_titled_hang(lines: Sequence[LogLine]) -> Failure | None:
    """Return the hang that the title names, beside a log whose only error is the dump of a step's input."""
    title = described(sentences(lines[:MOST_OF_TITLE]), titles_only=True)
    if title is None or title.cause is None or title.cause.name not in HANGING:
        return None
    return replace(as_described(title), hangs=True)


def _of_interrupted_hang(found: Failure, lines: Sequence[LogLine]) -> Failure:
    """Return what a person says of a process that hung until somebody ended it; else the interruption."""
    said = sentences(lines)
    hang = described(said, counts=lambda cause: cause.name in HANGING) if says_hang(said) else None
    return found if hang is None or hang.cause is None else replace(as_described(hang), hangs=True)


def _is_cut(failure: Failure) -> bool:
    """Whether a failure is only what is left of a traceback."""
    return failure.cut and not failure.paraphrased


def quotes(words: str, message: str) -> bool:
    """Whether a sentence's plain words hold several words of a message in a row."""
    said = plain_words(message[:LONGEST]).split()
    rows = (said[at : at + LEAST_QUOTED] for at in range(len(said) - LEAST_QUOTED + 1))
    return any(f" {' '.join(row)} " in words for row in rows)


def _of_hang(found: Failure, cause: FailureCause, lines: Sequence[LogLine]) -> Failure:
    if not says_hang(sentences(lines)):
        return replace(found, hangs=cause.name in HANGING)
    title = described(sentences(lines[:MOST_OF_TITLE]), titles_only=True)
    logged = next(line for line in lines if line.number == found.line)
    if found.paraphrased and logged.level and title is not None:
        line = title.sentence.line
        return replace(found, message=title.sentence.text[:MAX_MESSAGE], line=line.number, hangs=True)
    if found.paraphrased and (cause.of_request or cause.stage):
        # A check of a start that refuses ends it.
        return found
    if found.paraphrased or cause.name in HANGING:
        return replace(found, hangs=True)
    if logged.level != "ERROR" or title is None or title.cause is None or title.cause.name != HANG:
        return found
    quoted = quotes(title.sentence.words, found.message)
    return found if quoted else replace(as_described(title), hangs=True)
