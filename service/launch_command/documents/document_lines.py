"""Finds the document in a text that holds other lines beside it: a prompt, an exit code, a person's words."""

import re
from collections.abc import Iterator
from typing import Final

from service.nearest_names import quoted
from service.redaction import hide_secrets

DOCUMENT_KEY: Final = re.compile(r"^(?:apiVersion|kind|services|servingEngineSpec)[ \t]*:", re.MULTILINE)
"""A line with which a manifest, a Compose file or a chart's values begin, and hardly anything else."""
HERE_DOCUMENT: Final = re.compile(r"<<-?[ \t]*[\"'\\]?\w")
_ANY_KEY: Final = r"[\w./\"'$-]{1,200}[ \t]*:(?:[ \t]|$)"
_KNOWN_KEY: Final = (
    r"(?:apiVersion|kind|metadata|spec|status|data|stringData|items"
    r"|name|version|services|volumes|networks|configs|secrets|x-[\w-]{1,60}|servingEngineSpec)"
    r"[ \t]*:(?:[ \t]|$)"
)
_OUTER: Final = r"#|---|\.\.\.[ \t]*$|%YAML|-(?:[ \t]|$)|[\]}][ \t,]*$"
_KEPT: Final = tuple(re.compile(f"(?:{_OUTER}|{keys})") for keys in (_ANY_KEY, _KNOWN_KEY))
MOST_NAMED: Final = 3
"""Lines left out of a document that are named one by one."""
LONGEST_LINE: Final = 80


def documents_within(text: str) -> Iterator[tuple[str, str]]:
    """Yield a text with the lines beside its documents blank, and which were left out; the mildest first.

    Lines keep their numbers. A line that begins at the margin and is no key of a mapping, and what is
    indented below it, is no part of a document.
    """
    seen = {text}
    for kept in _KEPT:
        lines, strays = _split(text, kept)
        inner = "\n".join(lines)
        if strays and inner not in seen:
            seen.add(inner)
            yield inner, _left_out(strays)


def _split(text: str, kept: re.Pattern[str]) -> tuple[list[str], list[tuple[int, str]]]:
    lines: list[str] = []
    strays: list[tuple[int, str]] = []
    inside = False
    for number, line in enumerate(text.split("\n"), 1):
        if line[:1] not in {"", " ", "\t"}:
            inside = kept.match(line) is not None
        lines.append(line if inside else "")
        if not inside and line.strip():
            strays.append((number, line.strip()))
    return lines, strays


def _left_out(strays: list[tuple[int, str]]) -> str:
    shown = [
        f"line {number} ({quoted(hide_secrets(line[:LONGEST_LINE]))})" for number, line in strays[:MOST_NAMED]
    ]
    rest = len(strays) - MOST_NAMED
    more = f" and {rest} more line{'s' if rest > 1 else ''}" if rest > 0 else ""
    return f"Not read, since it is no part of the document: {', '.join(shown)}{more}."
