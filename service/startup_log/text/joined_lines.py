"""Separates lines of a log whose ends were lost: a form, a chat or a page put a blank in place of each."""

import re
from itertools import pairwise
from typing import Final

TRACEBACK: Final = "Traceback (most recent call last)"
"""Python 3, traceback.py: the beginning of the line above the calls."""
LEAST_HEADS: Final = 2
"""Beginnings of lines within one that show that ends were lost."""
LEAST_TEXT: Final = 80
"""Characters of the shortest line that is looked into: a frame and an exception have as many."""

_LEVEL: Final = r"(?:INFO|WARNING|ERROR|DEBUG|CRITICAL) (?:\d{4}-)?\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{3})? "
_PREFIX: Final = (
    r"(?:\([A-Z]\w{1,40}(?: [\w.=:-]{1,40}){0,4} pid=\d{1,9}[^()\n]{0,60}\)"
    r"|\[rank\d{1,4}\]:"
    r"|\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?Z?\]?"
    r"|[a-z][\w.-]{0,40}-\d{1,3}  ?\|)"
)
_HEADER: Final = f"{TRACEBACK}:"
"""The engine's own lines end in it too."""
_TRACEBACK: Final = re.escape(_HEADER)
_FRAME: Final = r"File \"[^\"\n]{1,300}\", line \d{1,7}(?:, in [^\s(]{1,120})?"
_EXCEPTION: Final = (
    r"(?:[a-z_]\w{0,40}\.){0,8}[A-Z]\w{0,60}(?:Error|Exception|Interrupt)(?:\(\w{1,60}\))?: (?=\S)"
)
_REFUSED: Final = r"(?:[\w.-]{1,40}: error: (?:unrecognized arguments|argument )|usage: [\w.-]{1,40} \[)"
"""What the parser of the command line writes before a refusal."""
_HEAD: Final = rf"(?:{_PREFIX}\s{{1,8}}){{1,6}}(?:{_LEVEL})?(?:\[[\w./]{{1,100}}\.py:\d{{1,6}}\] )?|{_LEVEL}"
_HEADS: Final = re.compile(
    rf"(?<!\S)(?:(?:{_HEAD})\s{{0,8}})?(?P<whole>{_TRACEBACK}|{_FRAME})|(?<!\S)(?:{_HEAD})"
)
"""What a line of a log begins with, and a line of a traceback as a whole."""
_RAISED: Final = re.compile(rf"(?<![:\s])\s{{1,4}}(?={_EXCEPTION})|\s(?={_REFUSED})")
"""Blanks before an exception. Behind a colon it belongs to the message in front of it."""
_COMMAND: Final = re.compile(
    r"\s{0,8}(?:[#$>] )?(?:sudo |[A-Z_]{2,40}=\S{1,200} ){0,8}"
    r"(?:docker|podman|vllm|python3?|kubectl|uvx?|srun)\s"
)
"""A command before what it printed."""
_SIGNS: Final = (" pid=", 'File "', "Traceback (most", "INFO ", "ERROR ", "WARNING ", "[rank")


def separated(text: str) -> list[str]:
    """Return the lines that one line holds without their ends; any other line alone, as it is."""
    if len(text) < LEAST_TEXT or sum(map(text.count, _SIGNS)) < LEAST_HEADS:
        return [text]
    heads = list(_HEADS.finditer(text.rstrip().removesuffix(_HEADER)))
    if len(heads) < LEAST_HEADS:
        return [text]
    begins = _raised(text).difference(each.end() for each in heads).union(each.start() for each in heads)
    ends = (each.end() for each in heads if each["whole"])
    return _cut(text, begins.union(ends))


def separated_alone(text: str) -> list[str]:
    """Return the same of a text that is one line: there a command ends where an exception begins."""
    found = separated(text)
    return _cut(text, _raised(text)) if len(found) == 1 and _COMMAND.match(text) is not None else found


def _raised(text: str) -> set[int]:
    return {each.end() for each in _RAISED.finditer(text)}


def _cut(text: str, cuts: set[int]) -> list[str]:
    ends = sorted({0, *cuts, len(text)})
    parts = (text[begin:end].strip() for begin, end in pairwise(ends))
    return [part for part in parts if part]
