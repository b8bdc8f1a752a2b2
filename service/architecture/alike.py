"""Groups the objects of a long section that say the same: there may be 160,000, of a few kinds."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import compress
from operator import itemgetter
from typing import Any, Final

from service.architecture.config import Config
from service.architecture.uniform_lists import AT_ONCE, marking

MOST_KINDS: Final = 256
"""Kinds of objects that are read apart, and checkpoints have up to four. The number of a kind fits a byte."""

Objects = Sequence[Mapping[str, Any]]
Said = tuple[Any, ...]
"""What an object says in each field, in a form that can be compared."""


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

    def labelled(self, together: Sequence[Sequence[int]]) -> bytes:
        """Return for each object which of several lists has the number of its kind."""
        lists = {number: at for at, numbers in enumerate(together) for number in numbers}
        return self.numbers.translate(bytes(lists.get(number, 0) for number in range(MOST_KINDS)))


def alike(section: Config, fields: tuple[str, ...]) -> Iterator[tuple[list[str], Config]]:
    """Yield the names of objects whose ``fields`` are equal, and one of the objects.

    The kinds come in the order in which they appear first.

    Raises:
        LookupError: there are too many kinds.
    """
    kinds = kinds_of(section, fields)
    for number, example in enumerate(kinds.examples):
        yield kinds.of(number), example


def kinds_of(section: Config, fields: tuple[str, ...], marks: bytes | None = None) -> Kinds:
    """Return the objects of a section, or of those of its fields that are marked, by what ``fields`` say.

    Raises:
        LookupError: there are too many kinds.
    """
    inside = section.fields
    names = list(inside if marks is None else compress(inside, marks))
    objects = list(inside.values() if marks is None else compress(inside.values(), marks))
    if not frozenset(map(type, objects)) <= {dict}:
        names = [name for name in names if isinstance(inside[name], Mapping)]
        objects = [inside[name] for name in names]
    found: dict[Said, int] = {}
    # So few objects stay in the cache of a processor while one field after another is read.
    parts = (objects[begin : begin + AT_ONCE] for begin in range(0, len(objects), AT_ONCE))
    numbers = b"".join(_numbers(part, fields, found) for part in parts)
    firsts = map(numbers.index, range(len(found)))
    return Kinds(names, numbers, tuple(_view(section, names[first]) for first in firsts))


def _view(section: Config, name: str) -> Config:
    return Config(section.fields[name], section.at(name), plain=section.plain)


def _numbers(objects: Objects, fields: tuple[str, ...], found: dict[Said, int]) -> bytes:
    """Return the number of each object's kind; a kind that is not among the ``found`` is added to them."""
    columns = _columns(objects, fields)
    said = [_comparable(column[0]) for column in columns]
    varied = [at for at, column in enumerate(columns) if column.count(column[0]) != len(column)]
    if not varied:
        return bytes((_number(tuple(said), found),)) * len(objects)
    each: list[Any] = _hashable(columns[varied[0]])
    if len(varied) > 1:
        each = list(zip(*(_hashable(columns[at]) for at in varied), strict=True))
    by_kind: dict[Any, int] = {}
    for kind in dict.fromkeys(each):
        for at, value in zip(varied, kind if len(varied) > 1 else (kind,), strict=True):
            said[at] = value
        by_kind[kind] = _number(tuple(said), found)
    return bytes(map(by_kind.__getitem__, each))


def _number(said: Said, found: dict[Said, int]) -> int:
    number = found.setdefault(said, len(found))
    if number == MOST_KINDS:
        raise LookupError("too many kinds of objects")
    return number


def _columns(objects: Objects, fields: tuple[str, ...]) -> list[list[Any]]:
    """Return what the objects say in each field; a field that none of them has says nothing once."""
    present = [field for field in fields if field in objects[0]]
    try:
        columns = {field: list(map(itemgetter(field), objects)) for field in present}
    except KeyError:
        return [[each.get(field) for each in objects] for field in fields]
    if len(present) < len(objects[0]) or set(map(len, objects)) != {len(present)}:
        missing = (field for field in fields if field not in columns)
        columns |= {field: [each.get(field) for each in objects] for field in missing}
    return [columns.get(field, [None]) for field in fields]


def _hashable(column: list[Any]) -> list[Any]:
    with suppress(TypeError):
        dict.fromkeys(column)
        return column
    return list(map(_comparable, column))


def _comparable(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """Return a value of JSON, or what stands for a list or an object."""
    return (repr(value),) if isinstance(value, list | Mapping) else value
