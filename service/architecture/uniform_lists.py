"""Long lists whose entries are written alike, so that they are looked up as they are written.

A list may have 250,000 entries. To take the signs off each of them costs more than to put the signs around
the few texts that are looked for. Entries are grouped by shape: what is left of them without letters and
digits. A list of every expert has a handful of shapes, and what holds for one entry of a shape is checked for
all of them in the text of the whole group.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from itertools import compress, count, repeat
from operator import contains
from typing import Final, Self, TypeVar

ANYTHING: Final = ".*"
OPERATORS: Final = "*+?^$()[]{}|"
"""Characters of an expression that a plain name has none of, but for the backslash."""
MOST_SHAPES: Final = 256
"""Shapes that are distinguished; the number of a shape fits a byte."""
AT_ONCE: Final = 1 << 10
"""Entries that are read as one text, which stays in the cache of a processor."""
MOST_EXPRESSIONS: Final = 1 << 12
"""Expressions with operators that are kept: so many are more than are matched, and any longer list is too."""
MOST_STARS: Final = 3
"""Counts of stars in shell patterns that are distinguished; two are at both ends of most."""
SAMPLE: Final = 256
"""Entries of one shape that are read one by one first, to see whether any is a plain text."""


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


Key = TypeVar("Key")
Alike = tuple[Sequence[str], EntryForm]
"""Entries of a list that are written alike, and how."""
Literals = tuple[list[Alike], list[str]]
"""Expressions without operators by their form, and other entries."""
OTHERS: Final = b"\1" + bytes(255)
"""Translates 0 to 1 and all other bytes to 0: what a mark for each entry leaves out."""
_SIGNS: Final = b"\n.:\\" + OPERATORS.encode()
_PLAIN: Final = bytes(set(range(256)) - set(_SIGNS))
_OPERATORS: Final = frozenset(OPERATORS)
_WILD: Final = frozenset("?[")
_BEFORE_NUMBER: Final = re.compile(r"[^\d*]+")
WHOLE_NAMES: Final = EntryForm(whole=True)


def marking(*numbers: int) -> bytes:
    """Return the table that translates some bytes to 1 and all others to 0."""
    return bytes(number in numbers for number in range(256))


def texts_of(entries: Sequence[str]) -> Iterator[str]:
    """Yield the entries as texts of some of them, each after a line break.

    A text of all of them takes 16 MiB. To get and fill so much memory takes longer than to read it.
    """
    for begin in range(0, len(entries), AT_ONCE):
        yield "\n" + "\n".join(entries[begin : begin + AT_ONCE])


def marks_of(entries: Sequence[str], sign: str) -> bytes:
    """Return a mark for each entry that begins with a sign."""
    marks = bytearray()
    for text in texts_of(entries):
        few = min(AT_ONCE, len(entries) - len(marks))
        found = text.count(f"\n{sign}") if text.count("\n") == few else None
        if found in (0, few):
            marks += bytes((found == few,)) * few
        else:
            marks += bytes(map(str.startswith, entries[len(marks) : len(marks) + few], repeat(sign)))
    return bytes(marks)


def _signs(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass").translate(None, _PLAIN)


@dataclass(frozen=True, slots=True)
class Shapes:
    """The entries of a list, each with the number of its shape, and one entry of each shape."""

    entries: Sequence[str]
    labels: bytes
    """What the caller tells the entries apart by; empty where it does not."""
    numbers: bytes
    examples: Mapping[int, str | None]
    """``None``: the shapes of these entries are not distinguished."""

    @classmethod
    def of(cls, entries: Sequence[str], labels: bytes = b"") -> Self:
        """Return the shapes of entries, unless there are too many, or an entry has a line break."""
        found: defaultdict[bytes, int] = defaultdict(count().__next__)
        numbers = bytearray()
        with suppress(ValueError):
            for text in texts_of(entries):
                signs = _signs(text)
                first = signs[1:].partition(b"\n")[0]
                lines = len(signs) // (1 + len(first))
                if signs == (b"\n" + first) * lines:
                    numbers += bytes((found[first],)) * lines
                else:
                    numbers += bytes(map(found.__getitem__, signs[1:].split(b"\n")))
        if len(numbers) != len(entries):
            return cls(entries, labels, bytes(len(entries)), {0: None})
        examples = {each: entries[numbers.index(each)] for each in found.values()}
        return cls(entries, labels, bytes(numbers), examples)

    def groups(self, key_of: Callable[[str], Key]) -> Iterator[tuple[Key | None, Self]]:
        """Yield the entries whose examples have the same key, ``None`` where shapes are not distinguished."""
        numbers: dict[Key | None, list[int]] = {}
        for number, example in self.examples.items():
            numbers.setdefault(None if example is None else key_of(example), []).append(number)
        for key, each in numbers.items():
            yield key, self if len(numbers) == 1 else self._only(each)

    def by_label(self) -> Iterator[tuple[int, Sequence[str]]]:
        """Yield the entries of each label."""
        labels = set(self.labels) or {0}
        for label in labels:
            marks = self.labels.translate(marking(label))
            yield label, self.entries if len(labels) == 1 else list(compress(self.entries, marks))

    def _only(self, numbers: Sequence[int]) -> Self:
        marks = self.numbers.translate(marking(*numbers))
        return replace(
            self,
            entries=list(compress(self.entries, marks)),
            labels=bytes(compress(self.labels, marks)),
            numbers=self.numbers.translate(None, bytes(set(range(MOST_SHAPES)).difference(numbers))),
            examples={number: self.examples[number] for number in numbers},
        )

    def written(self, form: EntryForm) -> EntryForm | None:
        """Return a form, with what all texts begin with; ``None`` if not every entry is written so."""
        text = self.entries[0].removeprefix(form.before).removesuffix(form.after)
        head = _BEFORE_NUMBER.match(text)
        begins = f"\n{form.before}{'' if head is None else head[0]}"
        alike = end = escapes = 0
        for lines in texts_of(self.entries):
            alike += lines.count(begins)
            end += lines.count(f"{form.after}\n") + lines.endswith(form.after) if form.after else 0
            escapes += lines.count(r"\.") if form.escaped else 0
        if end != (len(self.entries) if form.after else 0) or (
            form.escaped and escapes != self._backslashes()
        ):
            return None
        if alike == len(self.entries):
            return form if head is None else replace(form, head=head[0])
        begin = f"\n{form.before}"
        return (
            form if sum(lines.count(begin) for lines in texts_of(self.entries)) == len(self.entries) else None
        )

    def _backslashes(self) -> int:
        shapes = self.examples.items()
        return sum(self.numbers.count(number) * (each or "").count("\\") for number, each in shapes)


def plain_parts(entries: Sequence[str]) -> Iterator[tuple[Sequence[str], EntryForm | None]]:
    """Yield the entries with as many stars as each other, by their form.

    Names have a form, and shell patterns with a star at the end alone or at both ends; ``None``: others.
    """
    for stars, part in Shapes.of(entries).groups(lambda entry: min(entry.count("*"), MOST_STARS)):
        forms = () if stars is None else tuple(part.groups(_plain_form))
        form = forms[0][0] if len(forms) == 1 else None
        yield part.entries, part.written(form) if form is not None else None


def _plain_form(entry: str) -> EntryForm | None:
    stars = entry.count("*")
    if stars == 0:
        return WHOLE_NAMES
    if stars != entry.endswith("*") + entry.startswith("*") or entry[-1] != "*" or _WILD.intersection(entry):
        return None
    return EntryForm(after="*") if stars == 1 else EntryForm("*", "*", anywhere=True)


def literal_parts(entries: Sequence[str], sign: str = "") -> Literals:
    """Return the expressions without operators by their form, each after a sign, and the other entries.

    They match names that begin with them, or have them anywhere after ``.*``. A dot is taken for a dot.
    """
    return labelled_literals(entries, sign)[0]


def labelled_literals(
    entries: Sequence[str], sign: str = "", *, labels: bytes = b"", searched: bool = False
) -> Sequence[Literals]:
    """Return the same of the entries of each label, which are numbered from 0.

    Where they are ``searched``, an entry without backslashes too is a whole name, and others are anywhere.
    """
    found: list[Literals] = [([], []) for _ in range(1 + max(labels, default=0))]
    for shapes in _distinguished(entries, labels):
        for form, part in shapes.groups(lambda entry: _literal_form(entry, sign, searched=searched)):
            written = part.written(form) if form not in (None, WHOLE_NAMES) else form
            for label, few in part.by_label():
                parts, others = found[label]
                if written is not None:
                    parts.append((few, written))
                    continue
                literals, rest = _read_each(few, sign, searched=searched)
                parts += literals
                others += rest
    return found


def _distinguished(entries: Sequence[str], labels: bytes) -> Iterator[Shapes]:
    """Yield the entries by shape; those with a star apart, where all have too many shapes."""
    shapes = Shapes.of(entries, labels)
    if None not in shapes.examples.values():
        yield shapes
        return
    marks = bytes(map(contains, entries, repeat("*")))
    for each in (marks.translate(OTHERS), marks):
        if 1 in each:
            yield Shapes.of(list(compress(entries, each)), bytes(compress(labels, each)))


def _literal_form(entry: str, sign: str, *, searched: bool) -> EntryForm | None:
    if not entry.startswith(sign):
        return None
    text = entry.removeprefix(sign)
    before = ANYTHING if text.startswith(ANYTHING) else ""
    text = text.removeprefix(before)
    escapes, dots = text.count(r"\."), text.count(".")
    if not _OPERATORS.isdisjoint(text) or text.count("\\") != escapes or escapes not in (0, dots):
        return None
    if searched and not (before or escapes):
        return WHOLE_NAMES
    return EntryForm(sign + before, escaped=escapes > 0, anywhere=bool(before) or searched)


def _read_each(entries: Sequence[str], sign: str, *, searched: bool) -> tuple[list[Alike], list[str]]:
    """Read entries one by one, unless none of a sample is a plain text."""
    literal = _literal(sign).fullmatch
    if not any(map(literal, entries[:: 1 + len(entries) // SAMPLE])):
        return [], list(entries)
    marks = bytes(map(bool, map(literal, entries)))
    found: dict[EntryForm, list[str]] = {}
    for entry in compress(entries, marks):
        written = entry.removeprefix(sign)
        text = written.removeprefix(ANYTHING).replace(r"\.", ".")
        anywhere = EntryForm(anywhere=searched or written.startswith(ANYTHING))
        found.setdefault(WHOLE_NAMES if searched and text == written else anywhere, []).append(text)
    return [(texts, form) for form, texts in found.items()], list(compress(entries, marks.translate(OTHERS)))


@cache
def _literal(sign: str) -> re.Pattern[str]:
    """Return the pattern of an expression without operators."""
    return re.compile(rf"{re.escape(sign)}(?:\.\*)?(?:[^\\{re.escape(OPERATORS)}]++|\\\.)*+", re.DOTALL)
