"""Long lists whose entries are all written alike, so that they are looked up as they are written.

A list may have 250,000 entries. To take the signs off each of them costs more than to put the signs around
the few texts that are looked for.
"""

from dataclasses import dataclass
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

    def text(self, name: str) -> str:
        """Return a name, or a part of one, as it is written between the signs."""
        return name.replace(".", r"\.") if self.escaped else name


WHOLE_NAMES: Final = EntryForm(whole=True)


def lines_of(entries: tuple[str, ...] | list[str]) -> str:
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
        return EntryForm(after="*")
    return EntryForm("*", "*", anywhere=True) if lines.count("\n*") == count else None


def expression_form(lines: str, count: int, sign: str = "") -> EntryForm | None:
    """Return the form of expressions without operators, each after a sign, else ``None``.

    They match names that begin with them, or have them anywhere after ``.*``. A dot is taken for a dot.
    """
    if lines.count("\n") != count or (sign and lines.count(f"\n{sign}") != count):
        return None
    anywhere = lines.count(f"\n{sign}{ANYTHING}") == count
    before = sign + ANYTHING if anywhere else sign
    if any(_has(lines, operator, count * before.count(operator)) for operator in OPERATORS):
        return None
    if "\\" not in lines:
        return EntryForm(before, anywhere=anywhere)
    dots = lines.count(".") - (count if anywhere else 0)
    return EntryForm(before, escaped=True, anywhere=anywhere) if _are_escapes(lines, dots) else None


def _are_escapes(lines: str, dots: int) -> bool:
    """Return whether every dot has a backslash before it, and nothing else has one."""
    return lines.count("\\") == lines.count(r"\.") == dots


def _has(lines: str, operator: str, known: int) -> bool:
    """Return whether an operator is there beside the known ones."""
    return lines.count(operator) != known if known else operator in lines
