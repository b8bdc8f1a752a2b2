"""Sorts the entries of a checkpoint's lists by what they are matched with. A list may have 250,000."""

import re
from collections.abc import Sequence
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
        if lines.count(f"\n{REGULAR}") == lines.count("\n") == len(entries):
            found._take_expressions(lines.replace(f"\n{REGULAR}", "\n"), None)
            return found
        if f"\n{REGULAR}" in lines:
            expressions = [entry.removeprefix(REGULAR) for entry in entries if entry.startswith(REGULAR)]
            found._take_expressions("\n" + "\n".join(expressions), expressions)
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

    def _take_expressions(self, lines: str, expressions: list[str] | None) -> None:
        """Take those without operators out of a list that is too long for one automaton.

        They match names that begin with them (or have them anywhere, after ``.*``). A dot is taken for a dot.
        ``lines``: each after a line break. ``expressions``: the same; ``None`` if none has a break itself.
        """
        count = lines.count("\n") if expressions is None else len(expressions)
        if len(lines) <= MAX_PLACES:
            self.expressions = _split(lines) if expressions is None else expressions
            return
        anywhere = lines.count(f"\n{ANYTHING}") == count
        literals = _unescaped(lines.replace(f"\n{ANYTHING}", "\n") if anywhere else lines)
        if not has_operators(literals) and literals.count("\n") == count:
            (self.parts if anywhere else self.beginnings).extend(_split(literals))
            return
        expressions = _split(lines) if expressions is None else expressions
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


def has_operators(text: str) -> bool:
    """Whether expressions, joined, have a character that is more than itself."""
    return any(operator in text for operator in OPERATORS)


def _unescaped(lines: str) -> str:
    """Return expressions with plain dots for escaped ones."""
    if lines.count("\\") == lines.count(r"\."):  # to take one character out is faster
        return lines.replace("\\", "")
    return lines.replace(r"\.", ".")


def _split(lines: str) -> list[str]:
    return lines.split("\n")[1:]
