"""Finds code in what a person wrote about it: fenced blocks, text in backticks, replies, diffs."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

MOST_QUOTED: Final = 16
"""Pieces of one text that are read."""
_FENCE: Final = re.compile(r"[+ \t]*(?:```|~~~|(?:\"\"\"|''')[ \t]*$)")
_STARTS: Final = re.compile(r"\bvllm\b|\b(?:docker|podman|nerdctl)\b", re.IGNORECASE)
_SPAN: Final = re.compile(r"(`{1,3})([^`]{8,8192})(?:\1|\Z)")
_REPLY: Final = re.compile(r"[ \t]*> ?")
_ADDED: Final = re.compile(r"\+(?!\+\+)")
_REMOVED: Final = re.compile(r"-(?=[^-]|$)|@@|\+\+\+|---")


def quoted_texts(text: str) -> Iterator[str]:
    """Yield pieces of a text that may start the engine, the likeliest first; lines keep their numbers."""
    lines = text.split("\n")
    if sum(line.lstrip().startswith(">") for line in lines) * 2 > len(lines):
        lines = [_REPLY.sub("", line, count=1) for line in lines]
        yield "\n".join("" if _FENCE.match(line) else line for line in lines)
    if sum(line.startswith("+") for line in lines) * 2 > len(lines):
        yield "\n".join("" if _FENCE.match(line) else line for line in _without_marks(lines))
    pieces = (*_fenced(lines), *_spans("\n".join("" if _is_fence(line) else line for line in lines)))
    yield from [each for each in pieces if _STARTS.search(each)][:MOST_QUOTED]


def _is_fence(line: str) -> bool:
    return _FENCE.match(line) is not None and _STARTS.search(line) is None


def _fenced(lines: Sequence[str]) -> Iterator[str]:
    begin: int | None = None
    for at, line in enumerate(lines):
        if not _FENCE.match(line):
            continue
        if begin is not None:
            yield "\n" * begin + "\n".join(_without_marks(lines[begin:at]))
        begin = at + 1 if begin is None else None
    if begin is not None:
        yield "\n" * begin + "\n".join(_without_marks(lines[begin:]))


def _without_marks(block: Sequence[str]) -> Sequence[str]:
    """Return the lines of a block; those of a diff as they are after the change."""
    if not any(_ADDED.match(line) for line in block):
        return block
    return ["" if _REMOVED.match(line) else line[1:] for line in block]


def _spans(text: str) -> Iterator[str]:
    for found in _SPAN.finditer(text):
        yield "\n" * text.count("\n", 0, found.start(2)) + found[2]
