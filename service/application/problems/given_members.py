"""Reads a request of which few members are given, without the validators of all others."""

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from service.application.schemas.base import Input, unchecked

Read = TypeVar("Read", bound=Input)


def read_given(schema: type[Read], given: Mapping[str, Any]) -> Read | None:
    """Return what ``schema.model_validate`` makes of a document; ``None`` where that must say what is wrong.

    Pydantic builds the validators of a hundred members to check the two that a command names, and a command
    runs once: that took a twelfth of its time. So only validators of members that are given are built here.
    Members under other names, or with faults, are left to the whole schema.
    """
    if not given.keys() <= schema.model_fields.keys():
        return None
    parts: dict[str, Any] = {}
    plain: dict[str, Any] = {}
    for name, value in given.items():
        kind = schema.model_fields[name].annotation
        if isinstance(kind, type) and issubclass(kind, Input) and isinstance(value, Mapping):
            parts[name] = read_given(kind, value)
        else:
            plain[name] = value
    if None in parts.values():
        return None
    try:
        read = _schema_of(schema, plain).model_validate(plain)
    except ValidationError:
        return None
    return unchecked(schema, **dict(read), **parts)


def _schema_of(schema: type[Input], names: Mapping[str, Any]) -> type[BaseModel]:
    """Return a schema with some members of another."""
    members: dict[str, Any] = {}
    for name in names:
        field = schema.model_fields[name]
        kind: Any = field.annotation
        members[name] = (Annotated[(kind, *field.metadata)] if field.metadata else kind, ...)
    config = ConfigDict(**{**schema.model_config, "defer_build": False})
    return create_model(schema.__name__, __config__=config, **members)
