"""Undoes what log collectors do to lines: JSON that holds lines of a log, with their ends as escapes."""

import json
import re
from collections.abc import Iterator
from itertools import chain, islice
from typing import Any, Final

SURE: Final = ("log", "textPayload", "MESSAGE")
"""Members under which docker, fluentd, Google Cloud and journald keep a line."""
KEYS: Final = (*SURE, "message", "msg", "line")
"""The same, and members that answers of a server have too."""
LONGEST: Final = 1 << 20
"""Characters of a line that is read as JSON."""
DEEPEST: Final = 6
"""Values inside of values that are looked into."""
MOST: Final = 8192
"""Texts that are taken from one line of JSON."""
_JSON: Final = re.compile(r'\s{0,40}(?:[\[{]\s{0,8}["\[{\]}]|"[\[{]\\")')
_LOGGED: Final = re.compile(
    r"\x1b\[|\b(?:INFO|ERROR|WARNING|DEBUG|CRITICAL)\b.{0,60}\]|Traceback|^\s{0,40}File \"|\n\s{0,40}File \"|"
    r"^\[?\w{0,40}\]?:? ?(?:[a-z_]\w{0,60}\.){0,8}[A-Z]\w{0,60}(?:Error|Exception): "
)
"""What shows that a text is of a log, and not an answer of a server or a part of a config."""
_MEMBER: Final = re.compile(rf'\s{{0,40}}\{{?\s{{0,8}}"({"|".join(KEYS)})"\s?:\s?"(.*)$', re.DOTALL)
"""A member on a line of its own, or of JSON that was cut."""
_SURELY: Final = re.compile(rf'\s{{1,40}}"(?:{"|".join(SURE)})"\s?:\s?"')
"""A member of a collector alone, on a line of its own in an indented document."""
OPENINGS: Final = frozenset("[{")
"""The first line of such a document."""
LEAST_LINES: Final = 3
"""Members of a collector in a text that show that it is such a document."""
_END: Final = re.compile(r'(?<!\\)"(?:\s{0,4},\s{0,4}"\w{1,40}"\s?:[^\\]{0,400}|\s?\}?,?)$')
_ESCAPED_ENDS: Final = re.compile(
    r"\\n(?:\\u001b|\s{0,8}(?:File \\?\"|\^|\(\w|\[|INFO|ERROR|WARNING|Traceback|During handling|"
    r"(?:\w{1,40}\.){0,8}[A-Z]\w{1,60}(?:Error|Exception)\b))"
)
"""An escaped end of a line of a log; behind a folder's `\\n` in a path of Windows stands no such thing."""
_ESCAPES: Final = re.compile(r"\\(?:(n)|(t)|([\"'\\/])|u001[bB]|x1[bB]|033)")


def unescaped(text: str) -> str:
    """Return the lines that one line holds as JSON or with escapes; any other line as it is."""
    if _JSON.match(text) and len(text) <= LONGEST:
        found = list(islice(chain(_of_notebook(text), _texts(text)), MOST))
        if found:
            return "\n".join(each.rstrip("\n") for each in found)
    if '"' in text and (member := _MEMBER.match(text)) is not None:
        said = _plain(_END.sub("", member[2]))
        if member[1] in SURE or _LOGGED.search(said):
            return said.rstrip("\n")
    return _plain(text) if "\\" in text and _ESCAPED_ENDS.search(text) else text


def without_metadata(lines: list[str]) -> list[str]:
    """Return the lines of an indented JSON document of a collector, those without a line of the log emptied.

    Any other text comes back as it is; the numbers of the lines stay.
    """
    first = next((line.strip() for line in lines if line.strip()), "")
    if first not in OPENINGS or sum(_SURELY.match(line) is not None for line in lines) < LEAST_LINES:
        return lines
    return [line if _MEMBER.match(line) is not None else "" for line in lines]


def _texts(text: str) -> Iterator[str]:
    """Yield the texts of a log in a line of JSON."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return
    yield from (said for said, sure in _said(value, DEEPEST, sure=False) if sure or _LOGGED.search(said))


def _of_notebook(text: str) -> Iterator[str]:
    """Yield what the cells of a notebook printed, and the exceptions in which they ended."""
    if not text.lstrip().startswith("{") or '"cells"' not in text:
        return
    try:
        cells = json.loads(text).get("cells")
    except (ValueError, RecursionError):
        return
    for cell in cells if isinstance(cells, list) else ():
        outputs = cell.get("outputs") if isinstance(cell, dict) else None
        for output in outputs if isinstance(outputs, list) else ():
            if isinstance(output, dict):
                yield from map(_printed, (output.get("text"), output.get("traceback")))


def _printed(value: Any) -> str:  # noqa: ANN401 - any JSON
    """Return the text of an output of a cell, which a notebook keeps whole or by lines."""
    if isinstance(value, list):
        lines = [each for each in value if isinstance(each, str)]
        return ("" if any(each.endswith("\n") for each in lines) else "\n").join(lines)
    return value if isinstance(value, str) else ""


def _said(value: Any, depth: int, *, sure: bool) -> Iterator[tuple[str, bool]]:  # noqa: ANN401 - any JSON
    """Yield the texts in a value, and whether a collector alone keeps them so."""
    match value:
        case str():
            inner = list(_texts(value)) if depth and _JSON.match(value) else []
            yield from ((each, sure) for each in inner or [value])
        case dict() if depth:
            named = [key for key in KEYS if isinstance(value.get(key), str)][:1]
            others = [key for key, each in value.items() if isinstance(each, dict | list)]
            for key in named or others:
                yield from _said(value[key], depth - 1, sure=key in SURE)
        case [str(time), str(line)] if time.isdigit():
            yield line, True
        case list() if depth:
            for each in value:
                yield from _said(each, depth - 1, sure=sure)


def _plain(text: str) -> str:
    return _ESCAPES.sub(lambda found: "\n" if found[1] else "\t" if found[2] else found[3] or "\x1b", text)
