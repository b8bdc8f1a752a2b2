"""Finds how a start failed: the engine's own message, and the cause that it indicates."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from service.startup_log.lines import LogLine
from service.startup_log.paraphrases import paraphrased_shortage
from service.startup_log.phrases import CAUSES, WRAPPERS, FailureCause
from service.startup_log.templates import lines_containing

MAX_MESSAGE: Final = 2000
"""Characters of the engine's message that are returned."""
_EXCEPTION: Final = re.compile(
    r"(?:[a-z_][A-Za-z0-9_]{0,60}\.){0,8}([A-Z][A-Za-z0-9_]{0,80}(?:Error|Exception)|Exception|SystemExit)\b"
    r"(?::|\()\s?(.*)"
)
_HEADING: Final = "validation error"
"""Heading of an error of Pydantic; the message itself is on the next lines."""
_BELOW: Final = 3
"""Lines after the heading that are read."""
_SHORTAGE: Final = next(cause for cause in CAUSES if cause.name == "kv_cache_smaller_than_one_request")


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


def find_failure(lines: Sequence[LogLine]) -> Failure | None:
    """Return the root of a failure, or None if the log shows no failure.

    It is the first message of a known cause, since later errors only follow from it (in workers, the engine's
    core, the server). If there is none, it is the last exception; else a person's description of the failure.
    """
    known = _known(lines)
    if known is not None:
        return known
    raised = [(line, match) for line in lines if (match := _EXCEPTION.match(line.text))]
    roots = [each for each in raised if not _is_wrapper(each[0].text)]
    if roots:
        line, match = roots[-1]
        return Failure(match[1], _full_message(match[2], lines, line), line.number, None, {})
    shortage = paraphrased_shortage(lines)
    if shortage is not None:
        line, sizes = shortage
        return Failure("", line.text[:MAX_MESSAGE], line.number, _SHORTAGE, sizes, paraphrased=True)
    for line in lines:
        if _is_wrapper(line.text):
            return Failure("", line.text[:MAX_MESSAGE], line.number, None, {})
    return None


def _known(lines: Sequence[LogLine]) -> Failure | None:
    """Return the failure on the first line with a known cause, with the values of all its templates."""
    sentences = [(cause, template) for cause in CAUSES for template in cause.templates]
    root: tuple[LogLine, FailureCause] | None = None
    values: dict[str, float | str] = {}
    for at, which in lines_containing([line.text for line in lines], [each.start for _, each in sentences]):
        cause, template = sentences[which]
        if root is not None and root != (lines[at], cause):
            continue
        for found in template.find(lines[at].text):
            root = (lines[at], cause)
            values |= found
    if root is None:
        return None
    line, cause = root
    match = _EXCEPTION.match(line.text)
    kind, words = (match[1], match[2]) if match else (cause.type, line.text)
    return Failure(kind, words.strip("\"'() ")[:MAX_MESSAGE], line.number, cause, values)


def _full_message(message: str, lines: Sequence[LogLine], at: LogLine) -> str:
    if _HEADING not in message:
        return message[:MAX_MESSAGE]
    below = [line.text for line in lines if at.number < line.number <= at.number + _BELOW and line.text]
    return " ".join([message, *below])[:MAX_MESSAGE]


def _is_wrapper(text: str) -> bool:
    return any(words in text for words in WRAPPERS)
