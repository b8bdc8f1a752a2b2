"""Sorts the entries of a checkpoint's lists by what they are matched with. A list may have 250,000."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import compress, repeat
from operator import contains
from typing import Final, Self

from service.architecture.uniform_lists import OTHERS, Alike, literal_parts, plain_parts
from service.architecture.weight_schemes import LONG, Names
from service.memory.weights.names.patterns import MAX_PLACES

REGULAR: Final = "re:"
TOO_MANY: Final = 4 * MAX_PLACES
"""Characters of patterns that are not read: few need more than two for a place of an automaton."""
WILD: Final = frozenset("*?[")


@dataclass(slots=True)
class SortedEntries:
    """Entries as they are written, but for stars at their ends."""

    alike: list[Alike] = field(default_factory=list)
    """Parts of long lists that are written alike; they are not taken apart."""
    names: list[str] = field(default_factory=list)
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
        known = entries.form if isinstance(entries, Names) else None
        if known is not None:
            return cls([(entries, known)])
        found = cls()
        expressions, others = _by_sign(entries)
        found._take_expressions(expressions)
        for part, form in plain_parts(others) if len(others) > LONG else ((others, None),):
            if form is not None:
                found.alike.append((part, form))
            else:
                found._take_patterns(part)
        return found

    def _take_patterns(self, entries: Sequence[str]) -> None:
        self.names += [entry for entry in entries if "*" not in entry]
        places = 0
        for entry in entries:
            if "*" not in entry:
                continue
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
        if len(written) > MAX_PLACES or sum(map(len, written)) > MAX_PLACES:
            literals, written = literal_parts(written, REGULAR)
            self.alike += literals
        if _are_too_many(written):
            self.readable = False
        else:
            self.expressions += [each.removeprefix(REGULAR) for each in written]


def _are_too_many(expressions: Sequence[str]) -> bool:
    return sum(map(len, expressions)) > TOO_MANY


def _by_sign(entries: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Return the expressions, with their sign, and the other entries."""
    if entries and entries[0].startswith(REGULAR) and all(map(str.startswith, entries, repeat(REGULAR))):
        return entries, ()
    regular = bytes(map(contains, entries, repeat(REGULAR)))  # faster than ``startswith``, which few need
    if 1 not in regular:
        return (), entries
    expressions = entries if 0 not in regular else list(compress(entries, regular))
    if not all(map(str.startswith, expressions, repeat(REGULAR))):
        regular = bytes(map(str.startswith, entries, repeat(REGULAR)))
        expressions = list(compress(entries, regular))
    return expressions, list(compress(entries, regular.translate(OTHERS)))
