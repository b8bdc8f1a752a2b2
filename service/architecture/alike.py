"""Groups the objects of a long section that say the same: there may be 200,000, of a few kinds."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from operator import contains, itemgetter
from typing import Any, Final

from service.architecture.config import Config

MOST_KINDS: Final = 256
"""Kinds of objects that are read apart, and checkpoints have up to four."""

Objects = Sequence[Mapping[str, Any]]
Said = tuple[list[Any], dict[Any, None]]
"""What each object says, in a form that can be compared, and the same once each."""


def alike(
    section: Config, fields: tuple[str, ...], keys: Sequence[str] | None = None
) -> Iterator[tuple[list[str], Config]]:
    """Yield the names of objects whose ``fields`` are equal, and one of the objects; of some ``keys`` alone.

    The kinds come in the order in which they appear first.

    Raises:
        LookupError: there are too many kinds.
    """
    names = list(section.fields if keys is None else keys)
    objects = list(map(section.fields.__getitem__, names))
    if not frozenset(map(type, objects)) <= {dict}:
        names = [name for name in names if isinstance(section.fields[name], Mapping)]
        objects = [section.fields[name] for name in names]
    if not names:
        return
    said, kinds = _said(objects, fields)
    if not said:
        yield names, _view(section, names[0])
        return
    if len(kinds) > MOST_KINDS:
        raise LookupError(f"{len(kinds)} kinds of objects")
    found: dict[Any, list[str]] = {kind: [] for kind in kinds}
    deque(map(list.append, map(found.__getitem__, said), names), 0)
    for group in found.values():
        yield group, _view(section, group[0])


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
    try:
        return column, dict.fromkeys(column)
    except TypeError:
        column = list(map(repr, column))
        return column, dict.fromkeys(column)
