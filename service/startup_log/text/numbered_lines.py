"""Takes off the numbers that a pager, an editor or a log viewer puts before each line."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

LEAST_LINES: Final = 6
"""Lines one below the other whose consecutive numbers show that they count lines."""
FIRST: Final = 1
"""Number of the first line of a file; from 0 GPUs, ranks and processes are counted, whose numbers stay."""
_NUMBER: Final = re.compile(r"\s{0,8}(\d{1,7})(?:[:|.](?:\s|$)|\s{1,3}\||\s|$)")
"""A number in its column and what parts it from the text: ``cat -n``, ``grep -n``, a web viewer."""


def without_numbers(lines: Sequence[str]) -> list[str]:
    """Return the lines without their numbers, where each of several has the next one; others as they are."""
    plain = list(lines)
    for numbered in _counted(lines):
        for at in numbered:
            plain[at] = _NUMBER.sub("", lines[at], count=1)
    return plain


def _counted(lines: Sequence[str]) -> Iterator[list[int]]:
    """Yield the positions of lines with consecutive numbers; those between them are empty."""
    run: list[int] = []
    last = -1
    for at, line in enumerate(lines):
        found = _NUMBER.match(line)
        if found is None and not line.strip():
            continue
        if run and (found is None or int(found[1]) != last + 1):
            if _counts_lines(run, last):
                yield run
            run = []
        if found is not None:
            last = int(found[1])
            run.append(at)
    if _counts_lines(run, last):
        yield run


def _counts_lines(run: Sequence[int], last: int) -> bool:
    """Whether consecutive numbers, of which this is the last, are those of lines."""
    return len(run) >= LEAST_LINES and last - len(run) + 1 >= FIRST
