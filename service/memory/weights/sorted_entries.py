"""Sorts the entries of a checkpoint's lists by what they are matched with. A list may have 250,000."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Self

from service.architecture.uniform_lists import (
    ANYTHING,
    EntryForm,
    expression_form,
    lines_of,
    name_form,
    shell_form,
)
from service.architecture.weight_schemes import LONG, Names
from service.memory.weights.patterns import MAX_PLACES

REGULAR: Final = "re:"
TOO_MANY: Final = 8 * MAX_PLACES
"""Characters of patterns that are not read: few need more than two for a place of an automaton."""
WILD: Final = frozenset("*?[")
OPERATORS: Final = "\\*+?^$()[]{}|"
"""Characters of an expression that a plain name has none of."""
_OPERATOR: Final = re.compile(f"[{re.escape(OPERATORS)}]")


@dataclass(slots=True)
class SortedEntries:
    """Entries as they are written, but for stars at their ends."""

    names: Sequence[str] = ()
    form: EntryForm | None = None
    """How all entries of a long list are written; they are not taken apart then."""
    beginnings: list[str] = field(default_factory=list)
    """Shell patterns with one star, at the end; expressions without operators, of long lists."""
    parts: list[str] = field(default_factory=list)
    """Shell patterns with a star at each end."""
    globs: list[str] = field(default_factory=list)
    expressions: list[str] = field(default_factory=list)
    readable: bool = True
    """Whether the patterns are few enough for an automaton; if not, none of a kind is left."""

    @classmethod
    def of(cls, entries: tuple[str, ...]) -> Self:
        """Return the entries by kind."""
        found = cls(form=entries.form if isinstance(entries, Names) else None)
        if found.form is not None:
            return found
        lines = lines_of(entries)
        regular = lines.count(f"\n{REGULAR}")
        found.form = _form_of(lines, len(entries), regular)
        if found.form is not None:
            return found
        if regular:
            written = entries if regular == len(entries) else [each for each in entries if _is_regular(each)]
            found._take_expressions(written)
            if len(written) == len(entries):
                return found
            entries = tuple(entry for entry in entries if not _is_regular(entry))
            lines = lines_of(entries)
        if "*" in lines:
            found._take_patterns(entries)
        else:
            found.names = entries
        return found

    def _take_patterns(self, entries: tuple[str, ...]) -> None:
        self.names = [entry for entry in entries if "*" not in entry]
        places = 0
        for entry in entries:
            if "*" in entry:
                self._take_pattern(entry)
                places += len(self.globs[-1]) if self.globs and self.globs[-1] is entry else 0
                if places > TOO_MANY:
                    self.globs, self.readable = [], False
                    return

    def _take_pattern(self, glob: str) -> None:
        middle = glob.removesuffix("*")
        begin = middle.removeprefix("*")
        if glob == middle or WILD.intersection(begin):
            self.globs.append(glob)
        elif begin == middle:
            self.beginnings.append(begin)
        else:
            self.parts.append(begin)

    def _take_expressions(self, written: Sequence[str]) -> None:
        """Take those without operators out of a list that is too long for one automaton.

        They match names that begin with them (or have them anywhere, after ``.*``). A dot is taken for a dot.
        ``written``: each after the sign of an expression.
        """
        if len(written) <= MAX_PLACES and sum(map(len, written)) <= MAX_PLACES:
            self.expressions = [each.removeprefix(REGULAR) for each in written]
            return
        places = 0
        for each in written:
            expression = each.removeprefix(REGULAR)
            literal = expression.removeprefix(ANYTHING).replace(r"\.", ".")
            if _OPERATOR.search(literal):
                self.expressions.append(expression)
                places += len(expression)
                if places > TOO_MANY:
                    self.expressions, self.readable = [], False
                    return
            else:
                (self.parts if expression.startswith(ANYTHING) else self.beginnings).append(literal)


def _is_regular(entry: str) -> bool:
    return entry.startswith(REGULAR)


def _form_of(lines: str, count: int, regular: int) -> EntryForm | None:
    """Return how all entries of a long list are written, if they are written alike."""
    if count <= LONG:
        return None
    if regular:
        return expression_form(lines, count, REGULAR) if len(lines) > MAX_PLACES else None
    return shell_form(lines, count) if "*" in lines else name_form(lines, count)
