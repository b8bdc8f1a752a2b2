"""Finds the settings with which something fails, as the title of a text names them."""

import re
from collections.abc import Sequence
from typing import Final

from service.engines.arguments.arguments import releases_with
from service.startup_log.prose.sentences import sentences
from service.startup_log.prose.what_works import SETTING
from service.startup_log.text.lines import LogLine

MOST_OF_TITLE: Final = 8
"""Lines of a text in which its title is looked for."""
MOST: Final = 3
"""Settings that are named of one title."""
_CASE: Final = re.compile(r"(?i)\b(?:when|with|using|if|under|enabling|setting)\b|\+")
"""What stands before the settings of the case in which it fails."""
_OTHER: Final = re.compile(
    r"(?i)\b(?:without|support|add|allow|default|ignored?|no effect|missing|"
    r"try|increas\w{2,3}|lower\w{0,3}|need\w?)\b"
)
"""What shows that a title is about the setting itself, or that it fails without it."""


def titled_settings(lines: Sequence[LogLine]) -> tuple[str, ...]:
    """Return the flags and variables with which something fails, by the title."""
    title = next((each.text for each in sentences(lines[:MOST_OF_TITLE]) if each.title), "")
    first = SETTING.search(title)
    if first is None or _OTHER.search(title) or _CASE.search(title[: first.start()]) is None:
        return ()
    named = dict.fromkeys(SETTING.findall(title))
    return tuple(each for each in named if _is_known(each))[:MOST]


def _is_known(setting: str) -> bool:
    """Whether a flag or a variable is one of the engine's, of any release."""
    return bool(releases_with(setting.partition("=")[0]))
