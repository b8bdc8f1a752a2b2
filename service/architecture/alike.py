"""Groups the objects of a long section that say the same: there may be 200,000, of a few kinds."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress, repeat
from operator import contains, itemgetter
from typing import Any, Final

from service.architecture.config import Config
from service.architecture.uniform_lists import marking

MOST_KINDS: Final = 256
"""Kinds of objects that are read apart, and checkpoints have up to four. The number of a kind fits a byte."""

Objects = Sequence[Mapping[str, Any]]
Said = tuple[list[Any], dict[Any, None]]
"""What each object says, in a form that can be compared, and the same once each."""


@dataclass(frozen=True, slots=True)
class Kinds:
    """Names of objects, each with the number of its kind, and one object of each kind."""

    names: list[str]
    numbers: bytes
    examples: tuple[Config, ...]
    """The kinds come in the order in which they appear first."""

    def of(self, *numbers: int) -> list[str]:
        """Return the names of the objects of some kinds."""
        if len(numbers) == len(self.examples):
            return self.names
        return list(compress(self.names, self.numbers.translate(marking(*numbers))))


def alike(
    section: Config, fields: tuple[str, ...], keys: Sequence[str] | None = None
) -> Iterator[tuple[list[str], Config]]:
    """Yield the names of objects whose ``fields`` are equal, and one of the objects; of some ``keys`` alone.

    The kinds come in the order in which they appear first.

    Raises:
        LookupError: there are too many kinds.
    """
    kinds = kinds_of(section, fields, keys)
    for number, example in enumerate(kinds.examples):
        yield kinds.of(number), example


def kinds_of(section: Config, fields: tuple[str, ...], keys: Sequence[str] | None = None) -> Kinds:
    """Return the objects of a section, or of some ``keys`` of it, by what they say in ``fields``.

    Raises:
        LookupError: there are too many kinds.
    """
    inside = section.fields
    names = list(inside if keys is None else keys)
    objects = list(inside.values() if keys is None else map(inside.__getitem__, names))
    if not frozenset(map(type, objects)) <= {dict}:
        names = [name for name in names if isinstance(inside[name], Mapping)]
        objects = [inside[name] for name in names]
    if not names:
        return Kinds([], b"", ())
    said, kinds = _said(objects, fields)
    if not said:
        return Kinds(names, bytes(len(names)), (_view(section, names[0]),))
    if len(kinds) > MOST_KINDS:
        raise LookupError(f"{len(kinds)} kinds of objects")
    numbers = _numbers(said, dict(zip(kinds, range(MOST_KINDS), strict=False)))
    firsts = map(numbers.index, range(len(kinds)))
    return Kinds(names, numbers, tuple(_view(section, names[first]) for first in firsts))


def _numbers(said: list[Any], by_kind: Mapping[Any, int]) -> bytes:
    try:
        small = bytes(said)
    except (TypeError, ValueError):
        return bytes(map(by_kind.__getitem__, said))
    return small.translate(bytes(by_kind.get(each, 0) for each in range(256)))  # faster by a half


def _view(section: Config, name: str) -> Config:
    return Config(section.fields[name], section.at(name), plain=section.plain)


def _said(objects: Objects, fields: tuple[str, ...]) -> Said:
    """Return what each object says in the fields."""
    present = [field for field in fields if field in objects[0]]
    if len(present) < len(objects[0]) or set(map(len, objects)) != {len(present)}:
        present = [field for field in fields if any(map(contains, objects, repeat(field)))]
    varied = [said for said in (_column(objects, field) for field in present) if len(said[1]) > 1]
    if len(varied) > 1:
        together = list(zip(*(column for column, _ in varied), strict=True))
        return together, dict.fromkeys(together)
    return varied[0] if varied else ([], {})


def _column(objects: Objects, field: str) -> Said:
    try:
        column = list(map(itemgetter(field), objects))
    except KeyError:
        column = [each.get(field) for each in objects]
    if column.count(column[0]) == len(column):
        return column, {None: None}
    try:
        return column, dict.fromkeys(column)
    except TypeError:
        column = list(map(repr, column))
        return column, dict.fromkeys(column)
