"""Takes a table of one row apart, as people copy it from a list of known problems."""

import re
from collections.abc import Sequence
from typing import Final

MOST: Final = 4
"""Filled lines of a text that is one row: with its head, the rule below that, and a title."""
LEAST_CELLS: Final = 2
LEAST_WORDS: Final = 4
"""Words of a cell in which a person says something."""
RULE: Final = re.compile(r"\s{0,8}\|?(?:\s?:?-{1,80}:?\s?\|){1,40}\s?:?-{0,80}:?\s{0,8}$")
_BAR: Final = re.compile(r"(?<!\\)\|(?=\s|$)")
"""What separates cells; one within code has no blank behind it."""


def rows_apart(texts: Sequence[str]) -> Sequence[str]:
    """Return the lines of a text, with the cells of its only row on lines of their own, behind their heads.

    A table of more rows lists what may come; who copies one row asks about it.
    """
    filled = [at for at, text in enumerate(texts) if text.strip()]
    if len(filled) > MOST:
        return texts
    rules = [at for at in filled if RULE.match(texts[at])]
    rows = [at for at in filled if at not in rules and len(cells_of(texts[at])) >= LEAST_CELLS]
    heads = rows[:1] if rules and rows and rows[0] < rules[0] else []
    single = [at for at in rows if at not in heads]
    if len(single) != 1 or not _says(texts[single[0]]):
        return texts
    names = cells_of(texts[heads[0]]) if heads else []
    apart = list(texts)
    for at in (*heads, *rules):
        apart[at] = ""
    cells = cells_of(texts[single[0]])
    labels = [f"{name}: " if name.isprintable() and name else "" for name in names]
    labels += [""] * (len(cells) - len(labels))
    apart[single[0]] = "\n".join(f"{label}{cell}" for label, cell in zip(labels, cells, strict=False))
    return apart


def cells_of(text: str) -> list[str]:
    """Return the cells of a row of Markdown; none of another line."""
    text = text.strip()
    if not text.startswith("|") or not text.endswith("|"):
        return []
    return [cell for part in _BAR.split(text) if (cell := part.strip())]


def _says(row: str) -> bool:
    """Whether a person says something in a cell; the rows that tools print have values in columns."""
    cells = cells_of(row)
    in_columns = any("  " in cell for cell in cells)
    return not in_columns and any(len(cell.split()) >= LEAST_WORDS or not cell.isascii() for cell in cells)
