"""Joins the lines of an exception whose message a person, or a document, wrapped."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from service.startup_log.catalogue.whole_messages import continues
from service.startup_log.errors.exceptions import raises
from service.startup_log.text.lines import LogLine

LEAST: Final = 48
"""Characters of a line that was wrapped; a shorter one ends by itself."""
MOST: Final = 160
"""Characters of the longest line of a document."""
MOST_LINES: Final = 8
"""Lines of one message."""
_REFUSED: Final = ": error: argument --"
"""How argparse begins what it says of an argument."""
_KEY: Final = "-----"
"""The end of a line below which a key stands, which is no part of a message."""
_OF_PATH: Final = ("/", "~")
"""How a path begins, which in brackets of a message goes on with it."""
_GOES_ON: Final = (",", "(", "'", "`", "-")
"""Ends of a line behind which a sentence goes on, whatever the next line begins with."""


def unwrapped(lines: Sequence[LogLine]) -> Sequence[LogLine]:
    """Return the lines with each wrapped message in one; the lines that it took are empty."""
    joined: list[LogLine] | None = None
    for at, line in enumerate(lines):
        if not (_heads_argument(line) or (_is_wrapped(line) and raises(line.text))):
            continue
        end = _end(at, lines)
        if end > at + 1:
            joined = list(lines) if joined is None else joined
            joined[at] = replace(line, text=" ".join(each.text for each in lines[at:end]))
            joined[at + 1 : end] = [replace(each, text="") for each in lines[at + 1 : end]]
    return lines if joined is None else joined


def _end(at: int, lines: Sequence[LogLine]) -> int:
    """Return the position behind the last line of a message."""
    end = at + 1
    if _heads_argument(lines[at]):
        return min(at + 2, len(lines))
    while end < min(len(lines), at + MOST_LINES) and _is_wrapped(lines[end - 1]) and _continues(end, lines):
        end += 1
    return end


def _heads_argument(line: LogLine) -> bool:
    """Whether a line names the argument that argparse refuses, and not why."""
    return line.text.endswith(":") and _REFUSED in line.text


def _is_wrapped(line: LogLine) -> bool:
    """Whether a line can go on below: nothing but its length ends it."""
    if line.is_logged or not LEAST <= len(line.text) <= MOST:
        return False
    return line.text.endswith((*_GOES_ON, ")", "]")) or line.text[-1].isalnum()


def _continues(at: int, lines: Sequence[LogLine]) -> bool:
    """Whether a line goes on with the sentence above it."""
    line, above = lines[at], lines[at - 1].text
    if not line.text or line.is_logged or raises(line.text):
        return False
    return (
        continues(line.text)
        or (line.text.rstrip(".").isidentifier() and not above.endswith(_KEY))
        or (above.endswith(_GOES_ON[:2]) and line.text[0].isalnum())
        or (above.count("(") > above.count(")") and line.text[0] in _OF_PATH)
    )
