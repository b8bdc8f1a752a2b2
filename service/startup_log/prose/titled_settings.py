"""Finds what the title of a text claims, and the settings with which something fails by it."""

import re
from collections.abc import Sequence
from typing import Final

from service.engines.arguments.arguments import releases_with
from service.startup_log.prose.sentences import MOST_OF_QUOTE, Quote, title_of
from service.startup_log.prose.what_works import SETTING
from service.startup_log.text.lines import LogLine

LEAST_OF_CLAIM: Final = 4
"""Words of a title that claims something."""
MOST: Final = 3
"""Settings that are named of one title."""
_CASE: Final = re.compile(r"(?i)\b(?:when|with|using|if|under|enabl(?:e|ing|ed)|setting|once|after)\b|\+")
"""What stands before the settings of the case in which it fails."""
_SUBJECT: Final = re.compile(r"[\s:`\"'*#]{0,6}")
"""What stands before a setting that is the subject of the title."""
_DOES: Final = re.compile(
    r"(?i)^[^,;:]{0,30}?\b(?:causes?|breaks?|corrupts?|crash\w{0,2}|hangs?|leads? to|makes?|produces?|"
    r"results? in|triggers?|slows?|fails?|generates?|disables?|drops?)\b"
)
"""What a setting does that is the subject of a title."""
OTHER: Final = re.compile(
    r"(?i)\b(?:without(?! (?:it|this|that|them)\b)|support|add|allow|default|ignored?|no effect|missing|"
    r"try|increas\w{2,3}|lower\w{0,3}|need\w?|unset|(?:not|isn't|aren't) (?:set|given|passed|specified|used)"
    r")\b"
)
"""What shows that a title is about the setting itself, or that it fails without it."""


_NAMED: Final = re.compile(
    r"(?<![\w.-])[a-z][a-z0-9]{1,30}(?:_[a-z0-9]{1,30}){1,6}"
    r"(?: ?= ?(?:True|False|\d{1,6})(?!\w)|(?! ?=)(?![\w.(=]))"
)
"""An argument as a program passes it: `num_scheduler_steps=8`."""
_WHICH_DEVICES: Final = "_VISIBLE_DEVICES="
"""A variable that says which devices a start uses, and not how."""


def claim_of_title(lines: Sequence[LogLine]) -> Quote | None:
    """Return the title of a text, where it says more than which model or program it is about."""
    title = title_of(lines)
    if title is None or len(title.words.split()) < LEAST_OF_CLAIM or title.text.rstrip().endswith("("):
        # A line that ends so is source of a traceback.
        return None
    return Quote(title.line.number, title.text.strip(" #*")[:MOST_OF_QUOTE])


def titled_settings(lines: Sequence[LogLine]) -> tuple[str, ...]:
    """Return the flags and variables with which something fails, by the title."""
    said = title_of(lines)
    title = "" if said is None else said.text
    found = sorted((*SETTING.finditer(title), *_NAMED.finditer(title)), key=lambda each: each.start())
    known = [each for each in found if _is_known(each[0])]
    if not known or OTHER.search(title):
        return ()
    before, behind = title[: known[0].start()], title[known[0].end() :]
    is_subject = _SUBJECT.fullmatch(before) is not None and _DOES.match(behind) is not None
    if not is_subject and _CASE.search(before) is None:
        return ()
    return tuple(dict.fromkeys(each[0] for each in known))[:MOST]


def _is_known(setting: str) -> bool:
    """Whether a flag or an argument is one of the engine's, of any release, or it is given a value."""
    if setting[:1].isupper() or ("=" in setting and not setting.startswith("-")):
        return _WHICH_DEVICES not in setting
    flag = setting if setting.startswith("-") else f"--{setting.replace('_', '-')}"
    return bool(releases_with(flag))
