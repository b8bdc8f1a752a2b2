"""Checked access to a model's config.json: every value is read with its type and range."""

import gc
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, islice
from types import NoneType
from typing import Any, Final, TypeVar

from service.nearest_names import cut

T = TypeVar("T")

MAX_DIMENSION: Final = 1 << 26
"""Upper limit of widths, vocabularies and lengths, far above those of real models."""
MAX_COUNT: Final = 1 << 14
"""Upper limit of layer, head and expert counts."""
MAX_LAYERS: Final = 512
"""Upper limit of layers, which each cost time to plan, some of it in the square of their number.

The deepest published checkpoints have some 130, the deepest merges of such 315.
"""
MAX_DEPTH: Final = 32
MAX_BYTES: Final = 16 << 20
"""Bytes of a config: ModelOpt lists every module of a large mixture of experts, in some megabytes."""
MAX_CONTAINERS: Final = 160_000
"""Upper limit of objects and lists: mixed precision has one for each of some 50,000 modules.

512 experts of three matrices in 100 layers, more than any checkpoint has, are 153,600.
"""
MAX_TEXTS: Final = MAX_CONTAINERS
"""Upper limit of names in a list: as many modules."""


class InvalidConfig(ValueError):
    """The config cannot be read as a model.

    Attributes:
        pointer: JSON pointer (RFC 6901) of the field at fault.
        detail: what is wrong with it.
    """

    def __init__(self, pointer: str, detail: str) -> None:
        super().__init__(f"{pointer or '/'}: {detail}")
        self.pointer = pointer
        self.detail = detail


def parse_config(text: str | bytes) -> "Config":
    """Parse a config.json within limits of size and depth.

    Raises:
        InvalidConfig: it is too large, not JSON, not an object, or nested too deeply.
    """
    if len(text) > MAX_BYTES:
        raise InvalidConfig("", f"the config is larger than {MAX_BYTES} bytes")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidConfig("", f"the config is not JSON: {error}") from error
    return read_document(document)


def read_document(document: object) -> "Config":
    """View a parsed JSON document as a config.

    Raises:
        InvalidConfig: it is not an object, or has too many objects and lists, or too deep ones.
    """
    if not isinstance(document, Mapping):
        raise InvalidConfig("", "the config is not a JSON object")
    _check_nesting(document)
    return Config(document)


SCALARS: Final = frozenset({bool, float, int, str, NoneType})
PARSED: Final = frozenset({dict, list})
"""Types of the containers that a JSON parser makes: to look them up is faster than ``isinstance``."""
AT_ONCE: Final = 1 << 11
"""Values that are looked at together."""


def _check_nesting(document: Mapping[str, Any]) -> None:
    """Refuse a document whose containers are too many, or too deep within each other.

    CPython keeps objects that hold only scalars from garbage collection. Most of 160,000 are such, and are
    not looked into.
    """
    level: list[Any] = [document]
    left = MAX_CONTAINERS
    for _ in range(MAX_DEPTH):
        values, level, before = _values(level), [], left
        while few := list(islice(values, AT_ONCE)):
            found = _containers_of(few)
            left -= len(found)
            level += filter(gc.is_tracked, found)
            if left < 0:
                raise InvalidConfig("", f"the config has more than {MAX_CONTAINERS:,} objects and lists")
        if left == before:
            return
    raise InvalidConfig("", f"the config is nested more than {MAX_DEPTH} levels deep")


def _values(level: list[Any]) -> Iterator[Any]:
    """Return all values of objects and lists."""
    kinds = frozenset(map(type, level))
    if not kinds <= PARSED:
        return (each for node in level for each in (node if isinstance(node, list) else node.values()))
    if len(kinds) < len(PARSED):
        lists, objects = (level, []) if kinds == {list} else ([], level)
    else:
        lists = [node for node in level if type(node) is list]
        objects = [node for node in level if type(node) is dict]
    return chain(chain.from_iterable(lists), chain.from_iterable(map(dict.values, objects)))


def _containers_of(values: list[Any]) -> list[Any]:
    """Return the objects and lists among values. There may be millions of values, mostly of one type."""
    with suppress(TypeError, OverflowError):
        sum(values)  # the fastest way to see that all are numbers
        return []
    kinds = frozenset(map(type, values))
    if kinds <= SCALARS:
        return []
    if kinds <= PARSED:
        return values
    return [each for each in values if type(each) not in SCALARS and isinstance(each, Mapping | list)]


@dataclass(frozen=True, slots=True)
class Config:
    """A read-only view of one JSON object and of its place in the document.

    A key that is absent and a key that is ``null`` mean the same, as in the engine.
    """

    fields: Mapping[str, Any]
    pointer: str = ""
    written: Mapping[str, str] = field(default_factory=dict)
    """Name of a field in the document by the name that readers use, where they differ."""
    plain: bool = False
    """Whether the engine reads it with transformers' base class, which has no defaults."""

    def __contains__(self, key: str) -> bool:
        return self.fields.get(key) is not None

    def at(self, key: str) -> str:
        """Return the JSON pointer of one field."""
        key = self.written.get(key, key)
        return f"{self.pointer}/{key.replace('~', '~0').replace('/', '~1')}"

    def integer(
        self, *names: str, default: int | None = None, minimum: int = 1, maximum: int = MAX_DIMENSION
    ) -> int:
        """Return the first present of several fields, a whole number within a range.

        Raises:
            InvalidConfig: none is present and there is no default, or the value is out of range.
        """
        value = self.optional_integer(*names, minimum=minimum, maximum=maximum)
        if value is not None:
            return value
        if default is None:
            raise InvalidConfig(self.at(names[0]), f"{' or '.join(names)} is missing")
        return default

    def count(self, *names: str, default: int | None = None, minimum: int = 1) -> int:
        """Return a number of things (layers, heads, experts)."""
        return self.integer(*names, default=default, minimum=minimum, maximum=MAX_COUNT)

    def layers(self, *names: str) -> int:
        """Return a number of layers."""
        return self.integer(*names, maximum=MAX_LAYERS)

    def optional_integer(self, *names: str, minimum: int = 1, maximum: int = MAX_DIMENSION) -> int | None:
        """Return the first present of several fields, or ``None``."""
        for name in names:
            if name in self:
                return self._whole(name, self.fields[name], minimum, maximum)
        return None

    def number(self, name: str, default: float) -> float:
        """Return a finite number."""
        value = self.fields.get(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < MAX_DIMENSION:
            raise InvalidConfig(self.at(name), "is not a number of a sensible size")
        return float(value)

    def boolean(self, name: str, *, default: bool = False) -> bool:
        """Return a truth value."""
        value = self.fields.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise InvalidConfig(self.at(name), "is not true or false")
        return value

    def text(self, *names: str, default: str = "") -> str:
        """Return the first present of several fields, a string."""
        for name in names:
            if name in self:
                value = self.fields[name]
                if not isinstance(value, str):
                    raise InvalidConfig(self.at(name), "is not a string")
                return value
        return default

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of strings; empty when absent."""
        return self._sequence(
            name,
            lambda values: all(issubclass(kind, str) for kind in set(map(type, values))),
            "a list of strings",
            MAX_TEXTS,
        )

    def counts(self, name: str, *, maximum: int = MAX_DIMENSION) -> tuple[int, ...]:
        """Return a list of non-negative whole numbers; empty when absent."""
        return self._sequence(
            name,
            lambda values: all(type(value) is int and 0 <= value <= maximum for value in values),
            "a list of whole numbers",
        )

    def section(self, name: str) -> "Config | None":
        """Return a nested object, or ``None``."""
        value = self.fields.get(name)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise InvalidConfig(self.at(name), "is not an object")
        return Config(value, self.at(name), plain=self.plain)

    def sections(self) -> "Iterator[tuple[str, Config]]":
        """Yield every nested object with its key."""
        for key, value in self.fields.items():
            if isinstance(value, Mapping):
                yield key, Config(value, self.at(key), plain=self.plain)

    def _whole(self, name: str, value: object, minimum: int, maximum: int) -> int:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise InvalidConfig(self.at(name), "is not a whole number")
        if not minimum <= value <= maximum:
            raise InvalidConfig(self.at(name), f"is {cut(str(value))}, not between {minimum} and {maximum}")
        return value

    def _sequence(
        self, name: str, fit: Callable[[Iterable[Any]], bool], kind: str, most: int = MAX_COUNT
    ) -> tuple[Any, ...]:
        value = self.fields.get(name)
        if value is None:
            return ()
        if not isinstance(value, list | tuple) or not fit(value if len(value) <= most else value[: most + 1]):
            raise InvalidConfig(self.at(name), f"is not {kind}")
        if len(value) > most:
            raise InvalidConfig(self.at(name), f"has {len(value):,} entries; {most:,} are the most")
        return tuple(value)
