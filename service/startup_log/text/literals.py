"""Reads values as Python prints them, without executing anything.

The engine logs its arguments as a dictionary and its configuration as ``name=value`` pairs. Both contain
objects whose printed form is not a literal; these stay text.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

DEEPEST: Final = 6
"""Levels of nested values that are read; deeper values stay text."""
_QUOTES: Final = ("'", '"')
_OPENING: Final = {"(": ")", "[": "]", "{": "}"}
_NAMED: Final[Mapping[str, Any]] = {
    "None": None,
    "True": True,
    "False": False,
    "null": None,
    "true": True,
    "false": False,
}
_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,18}")
_BROKEN: Final = re.compile(r"[+-]?[0-9]{0,18}\.?[0-9]{1,18}(?:[eE][+-]?[0-9]{1,2})?")


def read_pairs(text: str, separator: str) -> dict[str, Any]:
    """Return the ``name<separator>value`` pairs at the top level of a text, with their values read."""
    return {name: read_value(value) for name, value in split_pairs(text, separator)}


def split_pairs(text: str, separator: str) -> Iterator[tuple[str, str]]:
    """Yield the pairs at the top level of a text, with their values as text."""
    for part in _split(text, ","):
        name, found, value = part.partition(separator)
        name = name.strip().strip("'\"")
        if found and name and not _is_cut(value.strip()):
            yield name, value.strip()


def _is_cut(value: str) -> bool:
    """Whether a quoted value has no end: the text was cut within it."""
    return value[:1] in _QUOTES and (len(value) == 1 or value[-1] != value[0])


def read_value(text: str, depth: int = 0) -> Any:  # noqa: ANN401 - any printed value
    """Return a printed value; a value that is not a literal stays text."""
    text = text.strip()
    if text in _NAMED:
        return _NAMED[text]
    first, last = text[:1], text[-1:]
    if first in {"'", '"'} and last == first and len(text) > 1:
        return text[1:-1].replace("\\\\", "\\").replace(f"\\{first}", first)
    if first in _OPENING and last == _OPENING[first] and depth < DEEPEST:
        return _collection(text, depth)
    return _number(text)


def _collection(text: str, depth: int) -> Any:  # noqa: ANN401 - any printed value
    inside = text[1:-1]
    if text[0] == "{":
        return {name: read_value(value, depth + 1) for name, value in split_pairs(inside, ":")}
    return [read_value(part, depth + 1) for part in _split(inside, ",") if part.strip()]


def _number(text: str) -> int | float | str:
    if _WHOLE.fullmatch(text):
        return int(text)
    return float(text) if _BROKEN.fullmatch(text) else text


def _split(text: str, separator: str) -> Iterator[str]:
    """Yield the parts of a text between separators outside of quotes and brackets."""
    depth, start, quote, skip = 0, 0, "", False
    for position, each in enumerate(text):
        if skip:
            skip = False
        elif quote:
            skip = each == "\\"
            quote = "" if each == quote else quote
        elif each in {"'", '"'}:
            quote = each
        elif each in "([{":
            depth += 1
        elif each in ")]}":
            if depth == 0:
                text = text[:position]
                break
            depth -= 1
        elif each == separator and depth == 0:
            yield text[start:position]
            start = position + 1
    yield text[start:]
