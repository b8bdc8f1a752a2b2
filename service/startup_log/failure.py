"""How a start ended: the engine's own words, and the cause that they tell."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from service.startup_log.lines import LogLine
from service.startup_log.paraphrases import paraphrased_shortage
from service.startup_log.phrases import CAUSES, WRAPPERS, FailureCause
from service.startup_log.templates import lines_saying

MAX_MESSAGE: Final = 2000
"""Characters of the engine's words that are given back."""
_EXCEPTION: Final = re.compile(
    r"(?:[a-z_][A-Za-z0-9_]{0,60}\.){0,8}([A-Z][A-Za-z0-9_]{0,80}(?:Error|Exception)|Exception|SystemExit)\b"
    r"(?::|\()\s?(.*)"
)
_HEADING: Final = "validation error"
"""Pydantic's words stand on the lines below."""
_BELOW: Final = 3
_SHORTAGE: Final = next(cause for cause in CAUSES if cause.name == "kv_cache_smaller_than_one_request")


@dataclass(frozen=True, slots=True)
class Failure:
    """The end of a start."""

    type: str
    """Class of the exception; empty where the log does not tell it."""
    message: str
    """The engine's own words, at most ``MAX_MESSAGE`` characters."""
    line: int
    cause: FailureCause | None
    """``None`` for words that are not known."""
    values: Mapping[str, float | str]
    """Numbers in the words."""
    paraphrased: bool = False
    """The words are a person's."""


def find_failure(lines: Sequence[LogLine]) -> Failure | None:
    """Return the root of a failure: the first words that a cause is known by, else the last exception.

    What follows a root is what it brings down: workers, the engine's core, the server. Where the engine's own
    words are missing, a person's may tell.
    """
    known = _known(lines)
    if known is not None:
        return known
    raised = [(line, match) for line in lines if (match := _EXCEPTION.match(line.text))]
    roots = [each for each in raised if not _wraps(each[0].text)]
    if roots:
        line, match = roots[-1]
        return Failure(match[1], _words(match[2], lines, line), line.number, None, {})
    shortage = paraphrased_shortage(lines)
    if shortage is not None:
        line, sizes = shortage
        return Failure("", line.text[:MAX_MESSAGE], line.number, _SHORTAGE, sizes, paraphrased=True)
    for line in lines:
        if _wraps(line.text):
            return Failure("", line.text[:MAX_MESSAGE], line.number, None, {})
    return None


def _known(lines: Sequence[LogLine]) -> Failure | None:
    """Return the first line that tells a cause, with all that it tells."""
    sentences = [(cause, template) for cause in CAUSES for template in cause.templates]
    root: tuple[LogLine, FailureCause] | None = None
    values: dict[str, float | str] = {}
    for at, which in lines_saying([line.text for line in lines], [each.start for _, each in sentences]):
        cause, template = sentences[which]
        if root is not None and root != (lines[at], cause):
            continue
        for specified in template.find(lines[at].text):
            root = (lines[at], cause)
            values |= specified
    if root is None:
        return None
    line, cause = root
    match = _EXCEPTION.match(line.text)
    kind, words = (match[1], match[2]) if match else (cause.type, line.text)
    return Failure(kind, words.strip("\"'() ")[:MAX_MESSAGE], line.number, cause, values)


def _words(message: str, lines: Sequence[LogLine], at: LogLine) -> str:
    if _HEADING not in message:
        return message[:MAX_MESSAGE]
    below = [line.text for line in lines if at.number < line.number <= at.number + _BELOW and line.text]
    return " ".join([message, *below])[:MAX_MESSAGE]


def _wraps(text: str) -> bool:
    return any(words in text for words in WRAPPERS)
