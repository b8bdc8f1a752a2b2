"""Refuses query parameters that a route does not have: one that is passed over would go unnoticed."""

from collections.abc import Iterator
from typing import Annotated, get_args, get_origin

from fastapi._compat import ModelField
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.requests import Request

from service.api.routes.log_body import condensed_log
from service.application.errors import UnknownParameter
from service.application.schemas.base import Input
from service.application.schemas.flags.flags import FlagsInput


async def known_parameters_only(request: Request) -> None:
    """Check the names of a request's query parameters.

    Raises:
        UnknownParameter: the route has no parameter of such a name.
    """
    route = request.scope.get("route")
    if condensed_log(request) is not None:
        # What is given with a log was checked when the log was read.
        return
    if not request.scope["query_string"] or not isinstance(route, APIRoute):
        return
    known = _known(route)
    if known is None:
        return
    unknown = [name for name in dict.fromkeys(request.query_params) if name not in known]
    if unknown:
        raise UnknownParameter(unknown, known)


def body_schema(request: Request) -> type[Input] | None:
    """Return the schema of the body that a request's route takes; ``None`` if it takes none."""
    route = request.scope.get("route")
    if not isinstance(route, APIRoute) or route.body_field is None:
        return None
    annotation = route.body_field.field_info.annotation
    kinds = (annotation, *map(_untagged, get_args(annotation)))
    return next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Input)), None)


def _untagged(kind: object) -> object:
    """Return a member of a tagged union without its tag."""
    return get_args(kind)[0] if get_origin(kind) is Annotated else kind


def _known(route: APIRoute) -> tuple[str, ...] | None:
    """Return the names of a route's parameters; ``None`` where a schema takes the flags of an engine too."""
    names: list[str] = []
    for field in _query_fields(route.dependant):
        schema = _schema(field.field_info.annotation)
        if schema is not None and issubclass(schema, FlagsInput):
            return None
        names += [field.alias] if schema is None else schema.model_fields
    return tuple(names)


def _query_fields(dependant: Dependant) -> Iterator[ModelField]:
    """Yield the query parameters of a route and of what it depends on."""
    yield from dependant.query_params
    for deeper in dependant.dependencies:
        yield from _query_fields(deeper)


def _schema(annotation: object) -> type[BaseModel] | None:
    """Return the schema among the types of an annotation, if there is one."""
    kinds = (annotation, *get_args(annotation))
    return next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)), None)
