"""Reads dated data: tables of the bundled TOML become timelines of typed values, by annotation.

A table of changes has one key for each release that changed the value, oldest first::

    [accepted]
    summary = "Accepted values of --kv-cache-dtype"
    "0.10.2" = { value = ["auto", "fp8"], source = "vLLM 0.10.2, CacheDType" }
    "0.11.0" = { add = ["bfloat16"], before = "fp8", source = "vLLM 0.11.0, CacheDType" }

``value`` states a value whole. ``add`` and ``remove`` change the value before it: members of a set, entries
of a map (an added entry may replace one), or items of an ordered list. In a list, ``before`` names the item
that the new ones precede; without it they are appended.
``none = true`` says that there is no value; the annotation must then allow ``None``.

A dataclass may have a field ``sources``, which has no table: it receives the source of each value by field.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from datetime import date
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, TypeAlias, TypeVar, get_args, get_origin, get_type_hints

from packaging.version import Version

from service.engines.timeline import Change, InvalidTimeline, Timeline

Parser: TypeAlias = Callable[[Any], Any]
T = TypeVar("T")

SUMMARY: Final = "summary"
SOURCES: Final = "sources"
KEYS: Final = frozenset({"value", "none", "add", "remove", "before", "source"})
SCALARS: Final = frozenset({bool, int, float, str})


def read_timeline(name: str, table: Mapping[str, Any], annotation: object) -> Timeline[Any]:
    """Return the timeline that a table of changes describes, its values parsed as ``annotation`` says.

    Raises:
        InvalidTimeline: a change lacks a source, its value is not of that type, or dates are out of order.
    """
    parse, changes = _parser(annotation), list[Change[Any]]()
    for since, entry in table.items():
        if since == SUMMARY:
            continue
        try:
            raw = _checked(entry)
            value = _value(raw, parse, annotation, changes)
            changes.append(Change(_release(since), value, raw["source"]))
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidTimeline(f"{name} in {since}: {error!r}") from error
    return Timeline(name, tuple(changes))


def read_timelines(name: str, tables: Mapping[str, Any], record: type) -> Mapping[str, Timeline[Any]]:
    """Return a timeline for every field of a dataclass, from the tables that have the fields' names.

    Raises:
        InvalidTimeline: a field has no table, a table has no field, or a change is invalid.
    """
    annotations = {field: kind for field, kind in get_type_hints(record).items() if field != SOURCES}
    if unknown := sorted(tables.keys() ^ annotations.keys()):
        raise InvalidTimeline(
            f"{name}: tables without a field of {record.__name__}, or the reverse: {unknown}"
        )
    return {
        field: read_timeline(f"{name}.{field}", tables[field], annotation)
        for field, annotation in annotations.items()
    }


def record_at(record: Callable[..., T], timelines: Mapping[str, Timeline[Any]], release: Version) -> T:
    """Return a record of the values that are in force in a release.

    Raises:
        LookupError: the release is older than the first dated change.
    """
    changes = {field: timeline.change_at(release) for field, timeline in timelines.items()}
    values = {field: change.value for field, change in changes.items()}
    if SOURCES in get_type_hints(record):
        values[SOURCES] = {field: change.source for field, change in changes.items()}
    return record(**values)


def parse_value(annotation: object, raw: object) -> Any:  # noqa: ANN401 - of the annotated type
    """Return a value of the bundled TOML as the type that an annotation names.

    Raises:
        TypeError: the value is of another type.
        ValueError: it is none of the members of an enumeration.
    """
    return _parser(annotation)(raw)


@cache
def _release(text: str) -> Version:
    return Version(text)


@cache
def _hints(record: type) -> Mapping[str, Any]:
    return get_type_hints(record)


def _checked(entry: object) -> Mapping[str, Any]:
    """Return a change whose keys go together."""
    if not isinstance(entry, Mapping):
        raise TypeError(f"{entry!r} is no table")
    if unknown := sorted(entry.keys() - KEYS):
        raise ValueError(f"unknown keys {unknown}")
    ways = [key for key in ("value", "none") if key in entry] + ["add"] * bool(
        entry.keys() & {"add", "remove"}
    )
    if len(ways) != 1:
        raise ValueError("a change states one of value, none, or add and remove")
    if "before" in entry and "add" not in entry:
        raise ValueError("before says where added items go, and none are added")
    source = entry["source"]
    if not isinstance(source, str) or not source.strip():
        raise TypeError(f"{source!r} is no source")
    return entry


def _value(raw: Mapping[str, Any], parse: Parser, annotation: object, changes: list[Change[Any]]) -> object:
    if "none" in raw:
        if raw["none"] is not True or NoneType not in get_args(annotation):
            raise TypeError("no value is allowed only as none = true, where the annotation has None")
        return None
    if "value" in raw:
        return parse(raw["value"])
    if not changes:
        raise ValueError("the oldest change has nothing to add to or to remove from")
    return _changed(changes[-1].value, raw, _plain(annotation))


def _plain(annotation: object) -> object:
    """Return an annotation without ``None``."""
    if get_origin(annotation) is not UnionType:
        return annotation
    (plain,) = (argument for argument in get_args(annotation) if argument is not NoneType)
    return plain


def _changed(old: object, raw: Mapping[str, Any], annotation: object) -> object:
    """Return a collection with members added and removed; each of them must change something."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if isinstance(old, Mapping):
        return _changed_map(old, raw, *arguments)
    if not isinstance(old, (frozenset, tuple)) or (origin is tuple and arguments[-1] is not Ellipsis):
        raise TypeError(f"{old!r} is no collection")
    parse = _parser(arguments[0])
    added, removed = (tuple(_listed(raw.get(key, []), parse)) for key in ("add", "remove"))
    _check_members(added, removed, old)
    if isinstance(old, frozenset):
        if "before" in raw:
            raise ValueError("a set has no order")
        return (old | set(added)) - set(removed)
    rest = [item for item in old if item not in removed]
    place = rest.index(parse(raw["before"])) if "before" in raw else len(rest)
    return (*rest[:place], *added, *rest[place:])


def _changed_map(
    old: Mapping[Any, Any], raw: Mapping[str, Any], key: object, value: object
) -> Mapping[Any, Any]:
    if "before" in raw:
        raise ValueError("a map has no order")
    added = _mapping(key, value)(raw.get("add", {}))
    removed = tuple(_listed(raw.get("remove", []), _parser(key)))
    same = [name for name, entry in added.items() if name in old and old[name] == entry]
    _check_members(same, removed, old)
    if both := [name for name in removed if name in added]:
        raise ValueError(f"{both} are added and removed")
    return {name: entry for name, entry in {**old, **added}.items() if name not in removed}


def _check_members(added: Sequence[object], removed: Sequence[object], old: Collection[object]) -> None:
    """Refuse members that are there already, are not there to be removed, or are named twice."""
    if present := [member for member in added if member in old]:
        raise ValueError(f"{present} were there before")
    if absent := [member for member in removed if member not in old]:
        raise ValueError(f"{absent} were not there before")
    _check_distinct((*added, *removed))


def _check_distinct(members: Sequence[object]) -> None:
    if repeated := [member for place, member in enumerate(members) if member in members[:place]]:
        raise ValueError(f"{repeated} stand twice")


@cache
def _parser(annotation: object) -> Parser:  # noqa: PLR0911 - one return for each kind of type
    """Return what turns a raw value into the annotated type."""
    annotation = _plain(annotation)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is tuple:
        return _tuple(arguments)
    if origin is frozenset:
        (member,) = arguments
        return _set(_parser(member))
    if origin is not None and issubclass(origin, Mapping):
        return _mapping(*arguments)
    if annotation is Any:
        return lambda raw: raw
    if annotation is date:
        return _day
    if annotation in SCALARS:
        return lambda raw: _exactly(annotation, raw)
    if isinstance(annotation, type) and is_dataclass(annotation):
        return lambda raw: _record(annotation, raw)
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return annotation
    raise TypeError(f"no reader for {annotation!r}")


def _exactly(kind: object, raw: object) -> object:
    if kind is float and type(raw) is int:
        return float(raw)
    if type(raw) is not kind:
        raise TypeError(f"{raw!r} is not {kind!r}")
    return raw


def _day(raw: object) -> date:
    """Return the day that a text such as ``2026-01-31`` means: TOML's own dates could not be stored."""
    if not isinstance(raw, str):
        raise TypeError(f"{raw!r} is no text")
    return date.fromisoformat(raw)


def _listed(raw: object, parse: Parser) -> Iterable[Any]:
    if not isinstance(raw, list):
        raise TypeError(f"{raw!r} is no list")
    return map(parse, raw)


def _tuple(arguments: tuple[Any, ...]) -> Parser:
    if arguments[-1] is Ellipsis:
        item = _parser(arguments[0])
        return lambda raw: tuple(_listed(raw, item))

    parsers = tuple(map(_parser, arguments))

    def fixed(raw: object) -> tuple[Any, ...]:
        items = tuple(_listed(raw, lambda item: item))
        return tuple(parse(item) for parse, item in zip(parsers, items, strict=True))

    return fixed


def _set(parse: Parser) -> Parser:
    def read(raw: object) -> frozenset[Any]:
        members = tuple(_listed(raw, parse))
        _check_distinct(members)
        return frozenset(members)

    return read


@cache
def _mapping(key: object, value: object) -> Parser:
    parse_key, parse_entry = _parser(key), _parser(value)

    def read(raw: object) -> Mapping[Any, Any]:
        if not isinstance(raw, Mapping):
            raise TypeError(f"{raw!r} is no table")
        return {parse_key(name): parse_entry(entry) for name, entry in raw.items()}

    return read


def _record(kind: type, raw: object) -> object:
    if not isinstance(raw, Mapping):
        raise TypeError(f"{raw!r} is no table")
    annotations = _hints(kind)
    if unknown := sorted(raw.keys() - annotations.keys()):
        raise ValueError(f"unknown keys {unknown}")
    needed = {
        field.name for field in fields(kind) if field.default is MISSING and field.default_factory is MISSING
    }
    if absent := sorted(needed - raw.keys()):
        raise ValueError(f"absent keys {absent}")
    return kind(**{name: _parser(annotations[name])(value) for name, value in raw.items()})
