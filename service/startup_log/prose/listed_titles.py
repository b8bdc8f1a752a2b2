"""Says whether a text only lists titles: of commits as git prints them, or of issues and changes."""

import re
from collections.abc import Sequence
from typing import Final

from service.startup_log.text.lines import LogLine

LEAST_TITLES: Final = 2
"""Titles of a list."""
MOST_LINES: Final = 3000
"""Lines of a text that are looked at."""
_COMMIT: Final = re.compile(
    r"[*|/\\_ ]{0,40}(?=[a-f]{0,39}[0-9])[0-9a-f]{7,40} (?:\([^()]{1,200}\) )?[A-Za-z\[\u3400-\u9fff]"
)
"""A line of `git log --oneline`, behind the branches that `--graph` draws: git, pretty-formats."""
_FULL_COMMIT: Final = re.compile(r"commit [0-9a-f]{40}(?: \([^()]{1,200}\))?$")
_AUTHOR: Final = ("Author: ", "Merge: ")
"""What `git log` writes below the commit's number."""
_ITEM: Final = re.compile(r"\s{0,8}(?:[-*+\u2022] |\d{1,3}[.)] )(?:\[[ xX]\] )?\S")
_TAGGED: Final = re.compile(r"\s{0,8}(?:[-*+\u2022] |\d{1,3}[.)] )?\[[A-Za-z][^\]\[]{1,30}\]")
_NUMBERED: Final = re.compile(r"(?:^|[\s(\[/])#\d{1,6}\b|/(?:issues|pull)/\d{1,6}\b")
"""The number of an issue or a change."""
_OPENED: Final = re.compile(r"#\d{1,6}\b.{0,80}\b(?:opened|closed|merged|updated|created) ")
"""What a list of issues has below each title: `#16259 opened on Apr 8 by ...`."""

_OPENED_BY: Final = re.compile(r"(?:#\d{1,6}\s)?opened (?:on )?[A-Z][a-z]{2} \d{1,2}(?:, \d{4})? by\b")
"""A line of the same list, as a browser copies it."""


def lists_titles(lines: Sequence[LogLine]) -> bool:
    """Whether each line of a text, but for a heading, is the title of a commit, an issue or a change."""
    filled = [line.text for line in lines[:MOST_LINES] if line.text]
    if len(filled) < LEAST_TITLES or len(lines) > MOST_LINES:
        return False
    if _FULL_COMMIT.match(filled[0]) and filled[1].startswith(_AUTHOR):
        return True
    if all(map(_COMMIT.match, filled)) or sum(map(bool, map(_OPENED_BY.match, filled))) >= LEAST_TITLES:
        return True
    below = filled[1:] if filled[0].startswith("#") or filled[0].endswith(":") else filled
    titles = [text for text in below if _OPENED.search(text) is None]
    if len(titles) < LEAST_TITLES:
        return False
    opened = len(below) - len(titles)
    return opened >= len(titles) or all(map(_is_title, titles))


def _is_title(text: str) -> bool:
    """Whether a line is the title of an issue or a change, which its number or its kind shows."""
    if _TAGGED.match(text):
        return _NUMBERED.search(text) is not None or _ITEM.match(text) is not None
    return _ITEM.match(text) is not None and _NUMBERED.search(text) is not None
