"""Groups the objects of a long section that say the same: there may be 150,000, of a few kinds."""

from collections.abc import Iterator, Mapping
from itertools import compress, repeat
from operator import eq, not_
from typing import Any, Final

from service.architecture.config import Config

COMPARED: Final = 16
"""Kinds of objects up to which each object is compared as a whole, which is the fastest."""


def alike(section: Config, fields: tuple[str, ...]) -> Iterator[tuple[list[str], Config]]:
    """Yield the names of objects whose ``fields`` are equal, and one of the objects.

    The kinds come in the order in which they appear first, but some may come more than once.
    """
    names, objects = list(section.fields), list(section.fields.values())
    if not frozenset(map(type, objects)) <= {dict}:
        names = [name for name in names if isinstance(section.fields[name], Mapping)]
        objects = [section.fields[name] for name in names]
    for _ in range(COMPARED):
        if not names:
            return
        same = list(map(eq, objects, repeat(objects[0])))
        if all(same):
            yield names, _view(section, names[0])
            return
        yield list(compress(names, same)), _view(section, names[0])
        others = list(map(not_, same))
        names, objects = list(compress(names, others)), list(compress(objects, others))
    yield from _by_fields(section, names, fields)


def _view(section: Config, name: str) -> Config:
    return Config(section.fields[name], section.at(name), plain=section.plain)


def _by_fields(
    section: Config, names: list[str], fields: tuple[str, ...]
) -> Iterator[tuple[list[str], Config]]:
    found: dict[str, list[str]] = {}
    for name in names:
        each: Mapping[str, Any] = section.fields[name]
        found.setdefault(repr([each.get(field) for field in fields]), []).append(name)
    for group in found.values():
        yield group, _view(section, group[0])
