"""Reads the core's values into plain dicts, and writes them as JSON, as the schema of an answer says.

The schema is the contract: which members an answer has, in which order, and how each is found. Nothing is
checked that the core has made itself, and no model is built, which would take longer than the plan of a
candidate. A test holds what is written against the schema. Each list begins with a checkpoint: to write the
largest answers takes most of a second.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from operator import attrgetter
from types import NoneType, UnionType
from typing import Annotated, Any, NamedTuple, TypeAlias, TypeVar, Union, get_args, get_origin

import orjson
from pydantic import BeforeValidator
from pydantic.fields import FieldInfo

from service.application.schemas.base import Output
from service.application.schemas.members import (
    From,
    In,
    Numbered,
    SaidOnce,
    WholeOnce,
    Writing,
    WrittenMember,
)
from service.application.schemas.parts import Parts
from service.checkpoints import checkpoint

Read: TypeAlias = Callable[[Any, Writing], Any]
Answer = TypeVar("Answer", bound=Output)


class Member(NamedTuple):
    """A member of a schema."""

    name: str
    found: Callable[[Any], Any]
    """Returns it, as the core has it."""
    read: Read | None
    """Makes a plain value of it; ``None``: it is one. It is never called with ``None``."""
    left_out: bool
    """Whether it is left out where it is ``None``."""


def plain(
    schema: type[Output], value: object, writing: Writing, given: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the members of a schema as they are found in a value; ``given``: those that were read before."""
    values: dict[str, Any] = {}
    members = writing.forms.get(schema)
    if members is None:
        members = writing.forms[schema] = _members(schema, writing.parts)
    for name, found, read, left_out in members:
        if given is not None and name in given:
            values[name] = given[name]
            continue
        item = found(value)
        if item is None:
            if not left_out:
                values[name] = None
        else:
            values[name] = item if read is None else read(item, writing)
    if schema.read_first:
        return {name: values[name] for name in schema.model_fields if name in values}
    return values


def as_json(tree: object) -> bytes:
    """Return plain values as JSON.

    Raises:
        orjson.JSONEncodeError: an integer has more than 64 bits.
    """
    return orjson.dumps(tree, default=_fragment, option=orjson.OPT_PASSTHROUGH_DATACLASS)


def as_answer(schema: type[Answer], tree: object) -> Answer:
    """Return plain values as a model of their schema."""
    return schema.model_validate_json(json.dumps(tree, default=_document))


def answer_of(schema: type[Answer], value: object, writing: Writing | None = None) -> Answer:
    """Return the model of a schema, with the members that are found in a value."""
    return as_answer(schema, plain(schema, value, writing or Writing()))


def _fragment(value: object) -> orjson.Fragment:
    if isinstance(value, WrittenMember):
        return orjson.Fragment(value.json)
    raise TypeError(f"{value!r} has no form in JSON")


def _document(value: object) -> object:
    if isinstance(value, WrittenMember):
        return json.loads(value.json)
    raise TypeError(f"{value!r} has no form in JSON")


def _members(schema: type[Output], parts: Parts) -> tuple[Member, ...]:
    """Return the members of a schema that a request with these parts gets, in the order of reading."""
    later = [name for name in schema.model_fields if name not in schema.read_first]
    fields = {name: schema.model_fields[name] for name in (*schema.read_first, *later)}
    return tuple(_member(name, field) for name, field in fields.items() if _is_in(field, parts))


def _is_in(field: FieldInfo, parts: Parts) -> bool:
    return all(getattr(parts, each.part) for each in field.metadata if isinstance(each, In))


def _member(name: str, field: FieldInfo) -> Member:
    ways = [each.way for each in field.metadata if isinstance(each, From)]
    way = ways[0] if ways else name
    found = attrgetter(way) if isinstance(way, str) else way
    return Member(name, found, _of_field(field), field.exclude_if is not None)


def _of_field(field: FieldInfo) -> Read | None:
    if any(isinstance(each, Numbered) for each in field.metadata):
        return lambda text, writing: writing.texts.id_of(text)
    if any(isinstance(each, SaidOnce) for each in field.metadata):
        return lambda texts, writing: [writing.text(each) for each in texts if each not in writing.said]
    if any(isinstance(each, WholeOnce) for each in field.metadata):
        return lambda text, writing: writing.text(text)
    return _of_metadata(field.metadata) or _of_type(field.annotation)


def _of_metadata(metadata: Iterable[object]) -> Read | None:
    before = [each.func for each in metadata if isinstance(each, BeforeValidator)]
    if not before:
        return None
    first: Any = before[0]
    return lambda value, _: first(value)


def _of_type(annotation: Any) -> Read | None:  # noqa: ANN401 - any annotation; one return for each form
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _of_metadata(inner[1:]) or _of_type(inner[0])
    if origin in {Union, UnionType}:
        kinds = [each for each in inner if each is not NoneType and not _is_none(each)]
        return _of_type(kinds[0]) if len(kinds) == 1 else None
    if annotation is float:
        return lambda value, _: float(value)
    if isinstance(annotation, type) and issubclass(annotation, Output):
        return partial(_part, annotation)
    if origin is list and (read := _of_type(inner[0])) is not None:
        return partial(_each, read)
    return None


def _part(schema: type[Output], value: object, writing: Writing) -> Any:  # noqa: ANN401 - as read
    return value if isinstance(value, WrittenMember) else plain(schema, value, writing)


def _each(read: Read, values: Iterable[object], writing: Writing) -> list[Any]:
    checkpoint()
    return [read(value, writing) for value in values]


def _is_none(annotation: object) -> bool:
    """Whether an annotation is ``SkipJsonSchema[None]``."""
    return get_origin(annotation) is Annotated and get_args(annotation)[0] in {None, NoneType}
