"""Reads the core's values into plain dicts, as the schema of an answer describes them.

Pydantic's models are the contract: which members an answer has, in which order, and from where they are read.
What is read here of a value is what ``model_validate`` reads of it, without the checks of values that the
core has made itself, and without an object for each part. A test compares the JSON of both.
"""

from collections.abc import Callable, Iterable
from functools import cache, partial
from types import NoneType, UnionType
from typing import Annotated, Any, TypeAlias, Union, get_args, get_origin

from pydantic import BeforeValidator
from pydantic.fields import FieldInfo

from service.application.schemas.base import Output

Read: TypeAlias = Callable[[Any], Any]


def plain(schema: type[Output], value: object) -> dict[str, Any]:
    """Return the members of a schema as ``model_validate`` reads them of a value's attributes."""
    return {
        name: getattr(value, name) if read is None else read(getattr(value, name))
        for name, read in _members(schema)
    }


@cache
def _members(schema: type[Output]) -> tuple[tuple[str, Read | None], ...]:
    """Return the names of the members of a schema, and how the value of each is read; ``None``: as it is."""
    return tuple((name, _of_field(field)) for name, field in schema.model_fields.items())


def _of_field(field: FieldInfo) -> Read | None:
    before = [each.func for each in field.metadata if isinstance(each, BeforeValidator)]
    if before:
        first: Any = before[0]
        return first  # type: ignore[no-any-return] # of a field that is text
    return _of_type(field.annotation)


def _of_type(annotation: Any) -> Read | None:  # noqa: ANN401 - any annotation; one return for each form
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _of_type(inner[0])
    if origin in {Union, UnionType}:
        kinds = [each for each in inner if each is not NoneType and not _is_none(each)]
        read = _of_type(kinds[0]) if len(kinds) == 1 else None
        return None if read is None else partial(_unless_none, read)
    if annotation is float:
        return float
    if isinstance(annotation, type) and issubclass(annotation, Output):
        return lambda value: plain(annotation, value)
    if origin is list and (read := _of_type(inner[0])) is not None:
        return partial(_each, read)
    return None


def _unless_none(read: Read, value: object) -> Any:  # noqa: ANN401 - as read
    return None if value is None else read(value)


def _each(read: Read, values: Iterable[object]) -> list[Any]:
    return [read(value) for value in values]


def _is_none(annotation: object) -> bool:
    """Whether an annotation is ``SkipJsonSchema[None]``."""
    return get_origin(annotation) is Annotated and get_args(annotation)[0] in {None, NoneType}
