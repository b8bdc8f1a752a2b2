"""Long lists whose entries are all written alike, so that they are looked up as they are written.

A list may have 250,000 entries. To take the signs off each of them costs more than to put the signs around
the few texts that are looked for.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import compress, repeat
from operator import contains, eq
from typing import Final

ANYTHING: Final = ".*"
OPERATORS: Final = "*+?^$()[]{}|"
"""Characters of an expression that a plain name has none of, but for the backslash."""


@dataclass(frozen=True, slots=True)
class EntryForm:
    """How every entry is written: a plain text between signs."""

    before: str = ""
    after: str = ""
    escaped: bool = False
    """Every dot has a backslash before it."""
    anywhere: bool = False
    """The text may be anywhere in a name, not at its beginning alone."""
    whole: bool = False
    """The text is a whole name."""
    head: str = ""
    """What all texts begin with; empty where that is not known."""

    def text(self, name: str) -> str:
        """Return a name, or a part of one, as it is written between the signs."""
        return name.replace(".", r"\.") if self.escaped else name


OTHERS: Final = b"\1" + bytes(255)
"""Translates 0 to 1 and all other bytes to 0: what a mark for each entry leaves out."""
_BEFORE_NUMBER: Final = re.compile(r"[^\d*]+")
WHOLE_NAMES: Final = EntryForm(whole=True)


def lines_of(entries: Sequence[str]) -> str:
    """Return the entries as one text, each after a line break."""
    return "\n" + "\n".join(entries)


def shell_form(lines: str, count: int) -> EntryForm | None:
    """Return the form of shell patterns with a star at the end alone, or at both ends, else ``None``."""
    if "?" in lines or "[" in lines or lines.count("\n") != count:
        return None
    stars, ends = lines.count("*"), lines.count("*\n") + lines.endswith("*")
    if ends != count or stars not in (count, 2 * count):
        return None
    if stars == count:
        return _with_head(EntryForm(after="*"), lines, count)
    if lines.count("\n*") != count:
        return None
    return _with_head(EntryForm("*", "*", anywhere=True), lines, count)


def name_form(lines: str, count: int) -> EntryForm | None:
    """Return the form of names that begin alike, else ``None``."""
    form = _with_head(WHOLE_NAMES, lines, count) if lines.count("\n") == count else WHOLE_NAMES
    return form if form.head else None


def expression_form(lines: str, count: int, sign: str = "") -> EntryForm | None:
    """Return the form of expressions without operators, each after a sign, else ``None``.

    They match names that begin with them, or have them anywhere after ``.*``. A dot is taken for a dot.
    """
    if lines.count("\n") != count:
        return None
    anywhere = lines.count(f"\n{sign}{ANYTHING}") == count
    if sign and not anywhere and lines.count(f"\n{sign}") != count:
        return None
    before = sign + ANYTHING if anywhere else sign
    if any(_has(lines, operator, count * before.count(operator)) for operator in OPERATORS):
        return None
    escaped = "\\" in lines
    if escaped and not _are_escapes(lines, lines.count(".") - (count if anywhere else 0)):
        return None
    return _with_head(EntryForm(before, escaped=escaped, anywhere=anywhere), lines, count)


def literal_entries(written: Sequence[str], sign: str = "") -> tuple[Sequence[str], list[str]]:
    """Return the expressions that have no operators but ``.*`` after a sign, and the others."""
    starred = bytes(map(contains, written, repeat("*")))
    unstarred, written = list(compress(written, starred.translate(OTHERS))), list(compress(written, starred))
    leading = bytes(map(str.startswith, written, repeat(sign + ANYTHING)))
    others = list(compress(written, leading.translate(OTHERS)))
    written = list(compress(written, leading))
    if "".join(written).count("*") != len(written):
        single = bytes(map(eq, map(str.count, written, repeat("*")), repeat(1)))
        others += compress(written, single.translate(OTHERS))
        written = list(compress(written, single))
    written = unstarred + written
    joined = "".join(written)
    if joined.count("\\") != joined.count(r"\."):
        plain = bytes(map(eq, map(str.count, written, repeat("\\")), map(str.count, written, repeat(r"\."))))
        others += compress(written, plain.translate(OTHERS))
        written = list(compress(written, plain))
    for operator in OPERATORS.strip("*"):
        if operator in joined:
            found = bytes(map(contains, written, repeat(operator)))
            others += compress(written, found)
            written = list(compress(written, found.translate(OTHERS)))
    return written, others


def _with_head(form: EntryForm, lines: str, count: int) -> EntryForm:
    """Return the form with what comes before the first number of each text, if that is the same."""
    end = lines.find("\n", 1)
    first = lines[1 : end if end > 0 else len(lines)]
    text = first.removeprefix(form.before).removesuffix(form.after)
    head = _BEFORE_NUMBER.match(text)
    if head is None or lines.count(f"\n{form.before}{head[0]}") != count:
        return form
    return replace(form, head=head[0])


def _are_escapes(lines: str, dots: int) -> bool:
    """Return whether every dot has a backslash before it, and nothing else has one."""
    return lines.count("\\") == lines.count(r"\.") == dots


def _has(lines: str, operator: str, known: int) -> bool:
    """Return whether an operator is there beside the known ones."""
    return lines.count(operator) != known if known else operator in lines
