"""Sorts the entries of a checkpoint's lists by what they are matched with. A list may have 250,000."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import compress, repeat
from operator import contains
from typing import Final, Self

from service.architecture.alike import marking
from service.architecture.uniform_lists import (
    ANYTHING,
    OTHERS,
    WHOLE_NAMES,
    EntryForm,
    expression_form,
    lines_of,
    literal_entries,
    name_form,
    shell_form,
)
from service.architecture.weight_schemes import LONG, Names
from service.memory.weights.patterns import MAX_PLACES

REGULAR: Final = "re:"
TOO_MANY: Final = 4 * MAX_PLACES
"""Characters of patterns that are not read: few need more than two for a place of an automaton."""
MOST_STARS: Final = 3
"""Counts of stars, from none to both ends, by which the entries of a long list are parted."""
MOST_COUNTED: Final = 255
"""Entries that have more stars are taken together."""
WILD: Final = frozenset("*?[")


@dataclass(slots=True)
class SortedEntries:
    """Entries as they are written, but for stars at their ends."""

    alike: list[tuple[Sequence[str], EntryForm]] = field(default_factory=list)
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
        many = len(expressions) > MAX_PLACES or sum(map(len, expressions)) > MAX_PLACES
        for part in _by_count(expressions, REGULAR + ANYTHING) if many else (expressions,):
            found._take(part, _expression_form(part) if many else None, found._take_expressions)
        for part in _by_count(others, "*") if len(others) > LONG else (others,):
            found._take(part, _plain_form(part), found._take_patterns)
        return found

    def _take(
        self, part: Sequence[str], form: EntryForm | None, take: Callable[[Sequence[str]], None]
    ) -> None:
        if form is not None:
            self.alike.append((part, form))
        else:
            take(part)

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
        if len(written) <= MAX_PLACES and sum(map(len, written)) <= MAX_PLACES:
            self.expressions += [each.removeprefix(REGULAR) for each in written]
            return
        if _are_too_many(literal_entries(written[:LONG], REGULAR)[1]):
            self.readable = False
            return
        literals, others = literal_entries(written, REGULAR)
        form = _expression_form(literals)
        if form is not None:
            self.alike.append((literals, form))
        else:
            for each in literals:
                literal = each.removeprefix(REGULAR).removeprefix(ANYTHING).replace(r"\.", ".")
                (self.parts if each.startswith(REGULAR + ANYTHING) else self.beginnings).append(literal)
        if _are_too_many(others):
            self.readable = False
        else:
            self.expressions += [each.removeprefix(REGULAR) for each in others]


def _are_too_many(expressions: list[str]) -> bool:
    return sum(map(len, expressions)) > TOO_MANY


def _by_sign(entries: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Return the expressions, with their sign, and the other entries."""
    regular = bytes(map(contains, entries, repeat(REGULAR)))  # faster than ``startswith``, which few need
    if 1 not in regular:
        return (), entries
    expressions = entries if 0 not in regular else list(compress(entries, regular))
    if not all(map(str.startswith, expressions, repeat(REGULAR))):
        regular = bytes(map(str.startswith, entries, repeat(REGULAR)))
        expressions = list(compress(entries, regular))
    return expressions, list(compress(entries, regular.translate(OTHERS)))


def _by_count(entries: Sequence[str], text: str) -> Iterator[Sequence[str]]:
    """Yield the entries that have a text as often as each other; those of higher counts come together."""
    try:
        counts = bytes(map(str.count, entries, repeat(text)))
    except ValueError:
        counts = bytes(min(entry.count(text), MOST_COUNTED) for entry in entries)
    often = [count for count in range(MOST_COUNTED + 1) if count in counts]
    if len(often) == 1:
        yield entries
        return
    for each in (*([count] for count in often[:MOST_STARS]), often[MOST_STARS:]):
        if each:
            yield list(compress(entries, counts.translate(marking(*each))))


def _expression_form(written: Sequence[str]) -> EntryForm | None:
    return expression_form(lines_of(written), len(written), REGULAR) if len(written) > LONG else None


def _plain_form(entries: Sequence[str]) -> EntryForm | None:
    """Return how a long list of names or shell patterns is written, if its entries are written alike."""
    if len(entries) <= LONG:
        return None
    lines, count = lines_of(entries), len(entries)
    return shell_form(lines, count) if "*" in lines else name_form(lines, count) or WHOLE_NAMES
