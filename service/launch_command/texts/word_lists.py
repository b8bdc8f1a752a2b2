"""Starts that a text gives as a list of words, as Python's ``subprocess`` and JSON documents have it."""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from service.launch_command.launch import Invocation, LaunchForm, Word
from service.launch_command.shell.starts import argv_starts

MAX_LIST: Final = 1 << 13
"""Characters of one list."""
MAX_LISTS: Final = 32
"""Lists that are read of one text."""
LIST: Final = re.compile(
    r"\[\s{0,80}(?:[\"'](?:[^\"'\s\[\]]{1,200}/)?(?:vllm|python[0-9.]{0,5}|docker|podman|nerdctl|sudo|env|uvx?)[\"']"
    r"|sys\.executable|[\"']serve[\"'])\s{0,80},"
)
"""The beginning of a list whose first word may start the engine."""
_OF_RAY: Final = frozenset({"build", "config", "deploy", "run", "shutdown", "start", "status"})
"""What Ray Serve's own command, `serve`, does."""
_TOKEN: Final = re.compile(r"#[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|[\[\]]")
_ASSIGNED: Final = re.compile(
    r"^[ \t]*([A-Za-z_]\w{0,80})[ \t]*=[ \t]*(?:\"([^\"\\\n]{0,400})\"|'([^'\\\n]{0,400})')\s*?(?:#.*)?$",
    re.MULTILINE,
)
_NAME_BEFORE: Final = re.compile(
    r"([A-Za-z_]\w{0,80})[ \t]*(?::[^=\n\[]{0,40}(?:\[\w{1,20}\][ \t]*)?)?=[ \t]*\(?\s*$"
)
_PLUS: Final = re.compile(r"\s{0,80}\+\s{0,80}([A-Za-z_]\w{0,80})?")
BEFORE: Final = 200
"""Characters before a list in which its name is looked for."""


def word_list_starts(text: str) -> Iterator[Invocation]:
    """Yield the starts that lists of words in a text give.

    A word that the program calculates is a missing one, as a variable of a shell that the text does not set.
    """
    values: Mapping[str, str | None] | None = None
    for _, found in zip(range(MAX_LISTS), LIST.finditer(text), strict=False):
        begin = found.start()
        end = _end_of(text, begin)
        items = [] if end is None else _items(text[begin:end])
        if not items or end is None:
            continue
        values = _assigned(text) if values is None else values
        line = text.count("\n", 0, begin) + 1
        words = [*with_program([_word(each, line, values) for each in items])]
        name = _added_to(text, begin, end)
        if name:
            words.append(Word(name, line, (name,)))
        yield from argv_starts(words, {}, LaunchForm.SHELL)


def with_program(words: Sequence[Word]) -> Sequence[Word]:
    """Return the words of a list that begins with ``serve`` behind the image's entrypoint, ``vllm``."""
    begins = [each.text for each in words[:2]]
    with_model = begins[0] == "serve" and not _OF_RAY.issuperset(begins[1:])
    return (Word("vllm", words[0].line), *words) if with_model else words


def _end_of(text: str, begin: int) -> int | None:
    """Return the position behind a list; ``None`` where it is cut off or too long."""
    depth = 0
    for token in _TOKEN.finditer(text, begin, begin + MAX_LIST):
        depth += (token[0] == "[") - (token[0] == "]")
        if depth == 0:
            return token.end()
    return None


def _items(written: str) -> list[ast.expr]:
    try:
        tree = ast.parse(written, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    return tree.body.elts if isinstance(tree.body, ast.List) else []


def _assigned(text: str) -> Mapping[str, str | None]:
    """Return the texts that names stand for; ``None`` for one that stands for several."""
    found: dict[str, str | None] = {}
    for each in _ASSIGNED.finditer(text):
        value = each[2] if each[2] is not None else each[3]
        found[each[1]] = value if found.get(each[1], value) == value else None
    return found


def _word(item: ast.expr, begin: int, values: Mapping[str, str | None]) -> Word:
    line = begin + item.lineno - 1
    match item:
        case ast.Constant(value=str() | int() | float() as value):
            return Word(str(value), line)
        case ast.Call(func=ast.Name(id="str"), args=[inner], keywords=[]):
            return _word(inner, begin, values)
        case ast.Attribute(value=ast.Name(id="sys"), attr="executable"):
            return Word("python", line)
        case ast.Name(id=name):
            known = values.get(name)
            return Word(name, line, (name,)) if known is None else Word(known, line)
        case _:
            name = next((each.id for each in ast.walk(item) if isinstance(each, ast.Name)), "a value")
            return Word(name, line, (name,))


def _added_to(text: str, begin: int, end: int) -> str:
    """Return the name of what adds further words to a list; empty where nothing does."""
    plus = _PLUS.match(text, end)
    if plus is not None:
        return plus[1] or "a list"
    named = _NAME_BEFORE.search(text[max(0, begin - BEFORE) : begin])
    if named is None:
        return ""
    adds = re.compile(rf"\b{named[1]}(?:\.(?:append|extend|insert)\(|[ \t]*\+=)")
    return named[1] if adds.search(text, end) else ""
