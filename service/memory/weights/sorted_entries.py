"""Sorts the entries of a checkpoint's lists by what they are matched with. A list may have 250,000."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Self

from service.memory.weights.patterns import MAX_PLACES

REGULAR: Final = "re:"
ANYTHING: Final = ".*"
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
        found = cls()
        lines = "\n" + "\n".join(entries)
        if f"\n{REGULAR}" in lines:
            expressions = _without(REGULAR, entries, lines)
            found._take_expressions(expressions)
            if len(expressions) == len(entries):
                return found
            entries = tuple(entry for entry in entries if not entry.startswith(REGULAR))
            lines = "\n" + "\n".join(entries)
        if "*" in lines:
            found._take_patterns(entries, lines)
        else:
            found.names = entries
        return found

    def _take_patterns(self, entries: tuple[str, ...], lines: str) -> None:
        stars, count = lines.count("*"), len(entries)
        if "?" not in lines and "[" not in lines and lines.count("\n") == count:
            ends = (f"{lines}\n").count("*\n")
            if stars == ends == count:
                self.beginnings += lines.replace("*", "").split("\n")[1:]
                return
            if stars == 2 * count and ends == lines.count("\n*") == count:
                self.parts += lines.replace("*", "").split("\n")[1:]
                return
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

    def _take_expressions(self, expressions: list[str]) -> None:
        """Take those without operators out of a list that is too long for one automaton.

        They match names that begin with them (or have them anywhere, after ``.*``). A dot is taken for a dot.
        """
        lines = "\n" + "\n".join(expressions)
        if len(lines) <= MAX_PLACES:
            self.expressions = expressions
            return
        lines = lines.replace(r"\.", ".")
        anywhere = lines.count(f"\n{ANYTHING}") == len(expressions)
        literals = (lines.replace(f"\n{ANYTHING}", "\n") if anywhere else lines).split("\n")[1:]
        if not has_operators(literals) and len(literals) == len(expressions):
            (self.parts if anywhere else self.beginnings).extend(literals)
            return
        places = 0
        for expression in expressions:
            literal = expression.removeprefix(ANYTHING).replace(r"\.", ".")
            if _OPERATOR.search(literal):
                self.expressions.append(expression)
                places += len(expression)
                if places > TOO_MANY:
                    self.expressions, self.readable = [], False
                    return
            else:
                (self.parts if expression.startswith(ANYTHING) else self.beginnings).append(literal)


def has_operators(literals: Iterable[str]) -> bool:
    """Whether one of many expressions has a character that is more than itself."""
    joined = "\n".join(literals)
    return any(operator in joined for operator in OPERATORS)


def _without(mark: str, entries: tuple[str, ...], lines: str) -> list[str]:
    """Return the entries that begin with a mark, without it."""
    if lines.count(f"\n{mark}") == lines.count("\n") == len(entries):
        return lines.replace(f"\n{mark}", "\n").split("\n")[1:]
    return [entry.removeprefix(mark) for entry in entries if entry.startswith(mark)]
