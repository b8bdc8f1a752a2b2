"""Splits a log into lines: bounded in number and length, printable, and without secrets."""

import re
from dataclasses import dataclass
from itertools import islice
from typing import Final

from service.redaction import HIDDEN, hide_secrets

MAX_CHARACTERS: Final = 2 << 20
"""Characters that are read. Of a longer log only the two ends are read: there a start begins and fails."""
MAX_LINES: Final = 30_000
MAX_LINE: Final = 16_384
"""Characters of one line. The engine's longest line, its configuration, has about 6,000."""

_ESCAPES: Final = re.compile(r"\x1b(?:\[[0-9;?]{0,32}[ -/]{0,4}[@-~]|[@-Z\\-_])")
_ORIGIN: Final = re.compile(r"\[([A-Za-z0-9_/]{1,100}\.py):([0-9]{1,6})\] ?")
_PROCESS: Final = re.compile(r"^\s{0,8}(?:\[[A-Za-z0-9_:.-]{1,40}\] )?\([A-Za-z0-9_ =,]{1,60}\) ")
_IN_PROSE: Final = re.compile(
    r"(?i)((?:(?:api|access|secret|private)[-_]?keys?|token|passwd|password|secret|credentials?)\s)"
    r"[^\s'\",\]})]{4,4096}"
)
"""A secret that follows its name after a blank. In other texts this form is too common to be masked."""


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of a log."""

    number: int
    """Number of the line in the given log, counted from 1."""
    text: str
    """The engine's own message, without the prefix (process, time, level) and unprintable characters."""
    origin: tuple[str, int] | None
    """File and line of the statement that logged it; None if the log does not state them."""


def read_lines(log: str) -> tuple[LogLine, ...]:
    """Return a log's lines, cleaned.

    If a log is longer than ``MAX_CHARACTERS`` or ``MAX_LINES``, its middle is dropped; if a line is longer
    than ``MAX_LINE``, its end is dropped.
    """
    log = log.removesuffix("\n")
    if len(log) <= MAX_CHARACTERS:
        numbered = list(enumerate(log.split("\n"), 1))
    else:
        half = MAX_CHARACTERS // 2
        tail = log.count("\n", 0, len(log) - half) + 1
        numbered = [*enumerate(log[:half].split("\n"), 1), *enumerate(log[-half:].split("\n"), tail)]
    if len(numbered) > MAX_LINES:
        numbered = numbered[: MAX_LINES // 2] + numbered[-MAX_LINES // 2 :]
    # A progress bar writes many texts over one line of the log; all of them have that line's number.
    drawn = ((number, part) for number, text in numbered for part in text.splitlines() or ("",))
    return tuple(_line(number, text) for number, text in islice(drawn, MAX_LINES))


def _line(number: int, text: str) -> LogLine:
    text = clean(text[:MAX_LINE])
    origin = _ORIGIN.search(text)
    if origin is None:
        return LogLine(number, _PROCESS.sub("", text).strip(), None)
    return LogLine(number, text[origin.end() :].strip(), (origin[1], int(origin[2])))


def clean(text: str) -> str:
    """Return a line without terminal escapes, unprintable characters and text that looks like a secret."""
    if not text.isprintable():
        text = _ESCAPES.sub("", text)
        text = "".join(each if each.isprintable() else " " for each in text)
    return _IN_PROSE.sub(rf"\1{HIDDEN}", hide_secrets(text))
