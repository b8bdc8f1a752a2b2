"""A log as bounded, printable lines without secrets."""

import re
from dataclasses import dataclass
from itertools import islice
from typing import Final

from service.redaction import HIDDEN, hide_secrets

MAX_CHARACTERS: Final = 2 << 20
"""Characters that are read: of a longer log its two ends, where a start begins and where it fails."""
MAX_LINES: Final = 30_000
MAX_LINE: Final = 16_384
"""Characters of one line; the engine's own longest, its configuration, has some 6,000."""

_ESCAPES: Final = re.compile(r"\x1b(?:\[[0-9;?]{0,32}[ -/]{0,4}[@-~]|[@-Z\\-_])")
_ORIGIN: Final = re.compile(r"\[([A-Za-z0-9_/]{1,100}\.py):([0-9]{1,6})\] ?")
_PROCESS: Final = re.compile(r"^\s{0,8}(?:\[[A-Za-z0-9_:.-]{1,40}\] )?\([A-Za-z0-9_ =,]{1,60}\) ")
_IN_PROSE: Final = re.compile(
    r"(?i)((?:(?:api|access|secret|private)[-_]?keys?|token|passwd|password|secret|credentials?)\s)"
    r"[^\s'\",\]})]{4,4096}"
)
"""A secret after its name and nothing between them: too common a form of words to be hidden elsewhere."""


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of a log."""

    number: int
    """Counted from 1 in the log as it was given."""
    text: str
    """The engine's own words: no name of a process, time or level before them, nothing unprintable."""
    origin: tuple[str, int] | None
    """File and line of the statement that wrote it, where the log says so."""


def read_lines(log: str) -> tuple[LogLine, ...]:
    """Return a log's lines, cleaned.

    A log beyond ``MAX_CHARACTERS`` or ``MAX_LINES`` loses its middle, a line beyond ``MAX_LINE`` its end.
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
    # A progress bar draws many lines over one another, which count as one.
    drawn = ((number, part) for number, text in numbered for part in text.splitlines() or ("",))
    return tuple(_line(number, text) for number, text in islice(drawn, MAX_LINES))


def _line(number: int, text: str) -> LogLine:
    text = clean(text[:MAX_LINE])
    origin = _ORIGIN.search(text)
    if origin is None:
        return LogLine(number, _PROCESS.sub("", text).strip(), None)
    return LogLine(number, text[origin.end() :].strip(), (origin[1], int(origin[2])))


def clean(text: str) -> str:
    """Return a line without terminal escapes, unprintable characters and what looks like a secret."""
    if not text.isprintable():
        text = _ESCAPES.sub("", text)
        text = "".join(each if each.isprintable() else " " for each in text)
    return _IN_PROSE.sub(rf"\1{HIDDEN}", hide_secrets(text))
