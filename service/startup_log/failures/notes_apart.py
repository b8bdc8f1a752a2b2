"""Takes apart what a short text notes beside settings or in a table: comments, and the cells of rows."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from service.startup_log.errors.exceptions import raises
from service.startup_log.errors.shown_code import comments
from service.startup_log.prose.complaints import is_about_failure
from service.startup_log.prose.labelled_parts import FIX
from service.startup_log.prose.symptoms import states_failure
from service.startup_log.text.lines import LogLine
from service.startup_log.text.single_rows import LEAST_CELLS, RULE, cells_of

MOST_LINES: Final = 40
"""Filled lines of a text that is pasted for a note in it; a longer one is a script or a document."""
_MARK: Final = re.compile(r"(?:#|//){1,3} ?")


def notes_apart(lines: Sequence[LogLine]) -> Sequence[LogLine] | None:
    """Return the lines with nothing but the notes of a text; ``None`` for a log, and without any note.

    Rows of a table and comments mostly list what may come. Who pastes nothing else asks about them. Each cell
    of a row is a line of its own, behind the head of its column, but for what mends the failure. A comment
    counts where it says that something failed, and not what a setting is for.
    """
    filled = [line for line in lines if line.text]
    if len(filled) > MOST_LINES or any(line.is_logged for line in filled):
        return None
    cells = _rows_apart(lines)
    noted = {at: [_MARK.sub("", lines[at].text, count=1)] for at in comments(lines)}
    noted = {at: said for at, said in noted.items() if _tells(said[0])}
    if not (cells or noted):
        return None
    return list(_apart(lines, {**noted, **cells}))


def _tells(comment: str) -> bool:
    """Whether a comment says that something failed."""
    return raises(comment) or states_failure(comment)


def _rows_apart(lines: Sequence[LogLine]) -> Mapping[int, Sequence[str]]:
    """Return the cells of rows that are about failures, with their heads, by the rows' positions."""
    rules = [at for at, line in enumerate(lines) if line.text.startswith("|") and RULE.match(line.text)]
    rows = {at: cells for at, line in enumerate(lines) if len(cells := cells_of(line.text)) >= LEAST_CELLS}
    heads = rows.get(rules[0] - 1, []) if rules else []
    listed = [at for at in rows if at not in rules and at + 1 not in rules]
    if not (_lists_failures(heads) or any(_lists_failures(rows[at][:1]) for at in listed if not heads)):
        return {}
    return {at: list(_with_heads(rows[at], heads)) for at in listed}


def _lists_failures(cells: Sequence[str]) -> bool:
    """Whether the heads of a table, or the first cell of a row without any, are about failures."""
    return any(is_about_failure(LogLine(1, cell, None)) for cell in cells)


def _with_heads(cells: Sequence[str], heads: Sequence[str]) -> Iterator[str]:
    for at, cell in enumerate(cells):
        head = heads[at].strip("*_` ") if at < len(heads) else ""
        if head.casefold() not in FIX:
            yield f"{head}: {cell}" if head else cell


def _apart(lines: Sequence[LogLine], noted: Mapping[int, Sequence[str]]) -> Iterator[LogLine]:
    for at, line in enumerate(lines):
        for text in noted.get(at, ("",)):
            yield replace(line, text=text)
