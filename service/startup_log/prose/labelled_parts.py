"""Finds the parts of a note that a label heads: why something failed, and what mended it."""

import re
from collections.abc import Iterator, Sequence
from itertools import islice, takewhile
from typing import Final

from service.bundled_toml import read_toml
from service.startup_log.text.lines import LogLine

_LABELS: Final = read_toml("service.startup_log.prose", "labels.toml")
REASON: Final = frozenset(_LABELS["reason"])
FIX: Final = frozenset(_LABELS["fix"])
LONGEST_LABEL: Final = 60
"""Characters of a label with its marks."""
LONGEST_ALONE: Final = 128
"""Characters of a line that is a label with its marks, number and brackets, and nothing else."""
MOST_LINES: Final = 5
"""Lines of a part that are read."""
NEAR: Final = 4
"""Lines below a label within which its part begins."""
MOST_OF_BLOCK: Final = 3
"""Lines of a block of code that are shown."""
LEAST: Final = 12
"""Characters of a part that says something."""
_LABEL: Final = re.compile(
    r"[\s>#*_|`-]{0,12}(?:\d{1,2}(?:\.\d{1,2}){0,2}[.)]? {1,3})?[*_`\"]{0,3}"
    r"(?P<label>[^\W\d_][^:\uff1a*_|`#\"()\uff08\uff09]{1,48}?)"
    r"(?: ?[(\uff08][^)\uff09]{1,40}[)\uff09])?\s?[*_`\"]{0,3}"
    r"(?P<mark>\s?[:\uff1a\u2014\u2192]|$)[*_`\"]{0,3}"
)
"""A label at the beginning of a line, between the marks of Markdown and YAML."""
_MARKS: Final = (":", "\uff1a", "\u2014", "\u2192")
"""What ends a label, unless the line does."""
_HEADS: Final = re.compile(r"\s{0,4}(?:#{1,6} |\*\*|__)")
"""What shows that a label alone on its line heads what follows."""
_ITEM: Final = re.compile(
    r"\s{0,8}(?:[-*+] |\d{1,2}[.)] |#{1,6} |\||```|~~~|>|"
    r"[*_`\"]{0,3}[^\W\d_][^\s:\uff1a]{0,30}[*_`\"]{0,3}[:\uff1a])"
)
"""The beginning of a line that belongs to no sentence above it: an item, a heading, a row, the next label."""
_FENCES: Final = ("```", "~~~")
_WRONG: Final = re.compile(r"(?i)(?:#|//) ?(?:wrong|bad|before|old|incorrect|don't)\b")
"""What marks the form that failed."""


def labelled(lines: Sequence[LogLine], labels: frozenset[str]) -> tuple[LogLine, str] | None:
    """Return the line and the words of the first part under one of these labels; ``None`` without any.

    Of what mended it, the part can be a block of code.
    """
    return next(_parts(lines, labels), None)


def _parts(lines: Sequence[LogLine], labels: frozenset[str]) -> Iterator[tuple[LogLine, str]]:
    for at, line in enumerate(lines):
        first = line.text[: 4 * LONGEST_LABEL]
        marked = len(first) <= LONGEST_ALONE or any(map(first.__contains__, _MARKS))
        found = _LABEL.match(first) if marked and not line.is_logged else None
        if (
            found is None
            or found["label"].strip().casefold() not in labels
            or _is_field(line, found["label"])
        ):
            continue
        rest = line.text[found.end() :].strip()
        begin = at if rest else _first_below(at, lines)
        if begin is None or not (rest or found["mark"] or _HEADS.match(line.text)):
            continue
        if lines[begin].text.lstrip().startswith(_FENCES):
            words = _code(begin + 1, lines) if labels is FIX else ""
        else:
            words = " ".join([lines[begin].text.strip(), *_wrapped(begin + 1, lines)])
        words = words.replace("**", "").strip(" -*#>|")
        if len(words) >= LEAST:
            yield lines[begin], words


def _is_field(line: LogLine, label: str) -> bool:
    """Whether a line is a field of a status that a tool prints, as Kubernetes does: `Reason:  OOMKilled`."""
    return line.text.strip().startswith(label) and label.strip().casefold() == "reason"


def _first_below(at: int, lines: Sequence[LogLine]) -> int | None:
    """Return the position of what stands under a label; ``None`` under one that heads other headings."""
    below = next((each for each in range(at + 1, min(at + NEAR, len(lines))) if lines[each].text), None)
    return None if below is None or lines[below].text.startswith(("#", "|")) else below


def _code(first: int, lines: Sequence[LogLine]) -> str:
    """Return the first lines of a block of code, on one line."""
    block = takewhile(lambda line: not line.text.lstrip().startswith(_FENCES), islice(lines, first, None))
    said = [line.text.strip() for line in islice(block, MOST_OF_BLOCK)]
    # What compares a wrong form with the right one is no line to be copied.
    return "" if any(_WRONG.search(each) for each in said) else " ".join(said)


def _wrapped(first: int, lines: Sequence[LogLine]) -> Iterator[str]:
    """Yield the lines on which a part goes on: no item, heading, fence or row, no log, and no next label."""
    below = takewhile(_goes_on, islice(lines, first, first + MOST_LINES))
    return (line.text.strip() for line in below)


def _goes_on(line: LogLine) -> bool:
    return bool(line.text) and not line.is_logged and _ITEM.match(line.text) is None
