"""How a text is laid out: its width, what it leaves out, and tables that fit the width."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Final, Literal, TypeAlias

Order: TypeAlias = Literal["gpus", "tokens", "memory", "name"]
"""Order of GPU types: fewest GPUs, most tokens, least memory of one GPU, or by name."""
Kept: TypeAlias = Literal["starting", "serving"]
"""GPU types that are listed: those on which it starts or may start, or that serve the whole workload."""

WIDTH: Final = 110
"""Characters of a line where the reader's width is not known."""
NARROWEST: Final = 60
WIDEST: Final = 160
"""Least and most characters of a line, whatever the terminal: longer lines are hard to read."""
GAP, NARROW_GAP = "   ", "  "
"""What is between columns; lines shorter than ``WIDTH`` have the narrow one."""
CUT_OFF: Final = "..."
READABLE_CUT: Final = 30
"""Characters of a last column with less room than this that go below the rows, where it allows that."""
MOST_NOTES: Final = 9
"""Notes below a table at most."""
SPACE_WITHIN: Final = "\N{NO-BREAK SPACE}"
"""Stands for a space at which a line is not broken."""
WITH_VALUE: Final = re.compile(
    r"""--[a-z][a-z0-9.-]*[ =](?:'[^']*'|"[^"]*"|[\[{]\S*|auto\b|\S*[\d_]\S*)|\bcheckpoint \S+/\S+""",
    re.ASCII,
)
"""An option and its value, or a checkpoint: copied in one piece. A word of a sentence is no value."""
WITH_UNIT: Final = re.compile(r"(?<![^\s(])~?\d(?:[\d.,]*\d)? (?=[^\W\d]|%)")
"""A number before a word: its unit, or what it counts."""
LEAST_CUT: Final = 16
"""Characters that are left at least of a column that is cut; where there is less room, it is left out."""


@dataclass(frozen=True, slots=True)
class TextOptions:
    """How a plan is written for people."""

    width: int = WIDTH
    """Characters of a line; commands and long words may be longer."""
    every: bool = False
    """Whether to list every candidate, and every refusal in full."""
    order: Order | None = None
    """Order of several GPU types; ``None`` for that of the request."""
    only: Kept | None = None
    curve: bool = False
    """Whether to say how many requests of which length run at once."""
    more: str = ""
    """How to get what is left out, to end a sentence with: ``, which --all lists``."""


DEFAULT_TEXT: Final = TextOptions()


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table."""

    name: str
    left: bool = False
    """Whether its cells are aligned to the left."""
    spare: int = 0
    """Columns with the highest number are left out first where the line is too short; 0 never is."""
    below: bool = False
    """Whether its cells are written below their rows where the line is too short."""
    said: str = ""
    """The words with which a row says its cell where the column is left out although its cells differ, such
    as ``{} tokens of context``. What most rows have is said once, below the table."""


def drawn(
    columns: Sequence[Column], rows: Sequence[Mapping[str, str]], width: int, kept: str | None = None
) -> list[str]:
    """Return the lines of a table that fits a width in characters, and which columns it leaves out.

    Columns in which all rows are empty are not shown. Where the rest is too wide, cells of columns marked
    ``below`` go below their rows, then spare columns are left out, except that of the name ``kept``; what
    tells rows apart is then said below them. On wide lines long cells of a column marked ``below`` become
    notes below the table.
    """
    gap = GAP if width >= WIDTH else NARROW_GAP
    shown = [each for each in columns if any(row[each.name] for row in rows)]
    narrow = (
        width < WIDTH and _total(shown, rows, gap) - max(0, _width(shown[-1], rows) - READABLE_CUT) > width
    )
    below = [each for each in shown if each.below] if narrow else []
    shown = [each for each in shown if each not in below]
    left_out: list[Column] = []
    while _least(shown, rows, gap) > width:
        spare = [each for each in shown if each.spare and each.name != kept]
        if not spare:
            break
        left_out.append(max(spare, key=lambda each: each.spare))
        shown.remove(left_out[-1])
    widths = [_width(each, rows) for each in shown]
    notes: dict[str, str] = {}
    if shown[-1].left:
        widths[-1] -= max(0, _total(shown, rows, gap) - width)
        if shown[-1].below:
            rows, notes = _noted(rows, shown[-1].name, widths[-1])
    lines = [_line([each.name for each in shown], shown, widths, gap)]
    lines.append("-" * (sum(widths) + len(gap) * (len(widths) - 1)))
    usual = _commonest(left_out, rows)
    for row in rows:
        lines.append(_line([row[each.name] for each in shown], shown, widths, gap))
        lines.extend(folded(_own_words(row, usual), width, "  "))
        for each in below:
            indent = "  "
            lines.extend(folded(row[each.name], width, indent))
    for words, number in notes.items():
        lines.extend(folded(f"{number} {words}", width, deeper="    "))
    if usual:
        words = ", ".join(each.said.format(most) for each, most in usual.items())
        lines.extend(folded(f"Rows that do not say otherwise: {words}.", width, deeper="  "))
    if left_out:
        names = ", ".join(each.name for each in columns if each in left_out)
        lines.extend(folded(f"A wider terminal also shows: {names}.", width))
    return lines


def _commonest(columns: Sequence[Column], rows: Sequence[Mapping[str, str]]) -> dict[Column, str]:
    """Return the commonest cell of the columns whose cells differ and must not go unsaid."""
    counts = {each: Counter(row[each.name] for row in rows if _says(row[each.name])) for each in columns}
    several = {each: found for each, found in counts.items() if each.said and len(found) > 1}
    return {each: found.most_common(1)[0][0] for each, found in several.items()}


def _says(cell: str) -> bool:
    return cell not in {"", "-"}


def _own_words(row: Mapping[str, str], usual: Mapping[Column, str]) -> str:
    """Return what a row has otherwise than most."""
    own = ((each, row[each.name]) for each, most in usual.items() if row[each.name] != most)
    return ", ".join(each.said.format(cell) for each, cell in own if _says(cell))


def folded(text: str, width: int, indent: str = "", deeper: str | None = None) -> Iterator[str]:
    """Yield the lines of a text at a width; ``deeper``: the indent of those after the first.

    A word longer than a line stays whole, and so does an option with its value: it can be copied. A number
    stays with its unit.
    """
    for unbroken in (WITH_VALUE, WITH_UNIT):
        text = unbroken.sub(lambda found: found[0].replace(" ", SPACE_WITHIN), text)
    lines = wrap(
        text,
        width,
        initial_indent=indent,
        subsequent_indent=indent if deeper is None else deeper,
        break_long_words=False,
        break_on_hyphens=False,
    )
    yield from (line.replace(SPACE_WITHIN, " ") for line in lines)


def wrapped(text: str, width: int) -> Iterator[str]:
    """Yield the lines of a text at a width; those after the first are indented deeper than it."""
    if not text:
        yield text
    indent = " " * (len(text) - len(text.lstrip()))
    yield from folded(text.lstrip(), width, indent, f"{indent}    ")


def _noted(
    rows: Sequence[Mapping[str, str]], name: str, width: int
) -> tuple[list[Mapping[str, str]], dict[str, str]]:
    """Return rows whose long cells of one column are numbers of notes, and these numbers by their words.

    Where more than ``MOST_NOTES`` cells differ, there are none: such cells are cut.
    """
    long = dict.fromkeys(row[name] for row in rows if len(row[name]) > width)
    if len(long) > MOST_NOTES:
        return list(rows), {}
    numbers = {words: f"({place})" for place, words in enumerate(long, 1)}
    return [{**row, name: numbers.get(row[name], row[name])} for row in rows], numbers


def _least(columns: Sequence[Column], rows: Sequence[Mapping[str, str]], gap: str) -> int:
    """Return the characters of a row whose last column is cut as far as it may be."""
    last = columns[-1]
    cut = max(0, _width(last, rows) - LEAST_CUT) if last.left else 0
    return _total(columns, rows, gap) - cut


def _total(columns: Sequence[Column], rows: Sequence[Mapping[str, str]], gap: str) -> int:
    return sum(_width(each, rows) for each in columns) + len(gap) * (len(columns) - 1)


def _width(column: Column, rows: Sequence[Mapping[str, str]]) -> int:
    return max(len(column.name), *(len(row[column.name]) for row in rows))


def _line(cells: Sequence[str], columns: Sequence[Column], widths: Sequence[int], gap: str) -> str:
    cut = [_cut(cell, width) for cell, width in zip(cells, widths, strict=True)]
    padded = (
        cell.ljust(width) if column.left else cell.rjust(width)
        for cell, column, width in zip(cut, columns, widths, strict=True)
    )
    return gap.join(padded).rstrip()


def _cut(cell: str, width: int) -> str:
    return cell if len(cell) <= width else f"{cell[: width - len(CUT_OFF)].rstrip()}{CUT_OFF}"
