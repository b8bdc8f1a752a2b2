"""Says what a caller may have meant by a name that is not known at its place in a request."""

from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from typing import Any, Final, TypeAlias, get_args

from pydantic import Tag

from service.application.schemas.base import Input
from service.application.schemas.requests.plan_body import PlanBody
from service.application.schemas.requests.plan_parameters import PLACES
from service.nearest_names import nearest

Step: TypeAlias = int | str
Names: TypeAlias = tuple[str, ...]
Schema: TypeAlias = type[Input]

DEEPEST: Final = 4
"""Objects inside objects of a request in which a name is looked for."""
TOP_LEVEL: Final = "at the top level of the body"


def meant_in_body(root: Schema, place: Sequence[Step], name: str) -> str:
    """Return advice on an unknown name of a body, such as "use `gpus`"; empty if no known name is similar.

    Args:
        root: schema of the whole body.
        place: keys and indices down to the object with the unknown name; tags of Pydantic stand in brackets.
        name: the unknown name.
    """
    here = tuple(step for step in place if isinstance(step, str) and not step.startswith("<"))
    schemas = _schemas_at(root, place)
    if called := next((each.also_called[name] for each in schemas if name in each.also_called), None):
        return f"use `{called}`"
    members = dict.fromkeys(name for schema in schemas for name in schema.model_fields)
    moved = moved_in_body(root, place, name)
    if moved:
        return moved
    near = nearest(name, members, count=1)
    if near:
        return f"the nearest name is {near[0]}"
    elsewhere = nearest(name, _places(root), count=1)
    return _similar(here, _places(root)[elsewhere[0]], elsewhere[0]) if elsewhere else ""


def moved_in_body(root: Schema, place: Sequence[Step], name: str) -> str:
    """Return where a known name belongs in a body; empty if no part of the body has this name."""
    here = tuple(step for step in place if isinstance(step, str) and not step.startswith("<"))
    found = _places(root).get(name)
    return "" if found is None else _moved(here, found, name)


@lru_cache(maxsize=1024)
def parameter_meant(name: str) -> str | None:
    """Return the parameter of a query for a name of a body (`gpu` for `gpus`), or else the nearest one."""
    if any(name == place[0] for place in PLACES.values() if len(place) > 1):
        return None
    for parameter, place in PLACES.items():
        if name == place[-1]:
            return parameter
    # A command without a faulty name needs no query string.
    from service.application.schemas.requests.plan_query import PlanQuery  # noqa: PLC0415

    near = nearest(name, PlanQuery.model_fields, count=1)
    return near[0] if near else None


def is_flag(parameter: str) -> bool:
    """Whether a parameter of a query is a flag of the engine."""
    return PLACES.get(parameter, ("",))[0] == "serve"


def _moved(here: Names, place: Names, name: str) -> str:
    *sections, last = place
    if tuple(sections) == here:
        return f"use `{last}`"
    where = f"in `{'.'.join(sections)}`" if sections else TOP_LEVEL
    return f"it belongs {where}" if last == name else f"it belongs {where} as `{last}`"


def _similar(here: Names, place: Names, name: str) -> str:
    *sections, last = place
    if tuple(sections) == here:
        return f"use `{last}`"
    where = f"in `{'.'.join(sections)}`" if sections else TOP_LEVEL
    return f"the nearest name is {last}, which belongs {where}" if last == name else ""


@cache
def _places(root: Schema) -> dict[str, Names]:
    """Return where each name of a body belongs, by name: the outermost place, and flat names of a plan."""
    found: dict[str, Names] = {}
    for place, schema in _objects(root):
        for name in schema.model_fields:
            found.setdefault(name, (*place, name))
        if schema is PlanBody:
            for name, inside in PLACES.items():
                found.setdefault(name, (*place, *inside))
    return found


def _objects(root: Schema) -> Iterator[tuple[Names, Schema]]:
    """Yield the objects of a body that can be named by keys alone, the outermost first."""
    level: list[tuple[Names, Schema]] = [((), root)]
    for _ in range(DEEPEST):
        yield from level
        level = [
            ((*place, name), inner)
            for place, schema in level
            for name, field in schema.model_fields.items()
            if len(inside := [each for _, each in _tagged(field.annotation)]) == 1
            for inner in inside
        ]


def _schemas_at(root: Schema, place: Iterable[Step]) -> list[Schema]:
    """Return the schemas that the object at a place may have."""
    found: list[tuple[str | None, Schema]] = [(None, root)]
    for step in place:
        if not isinstance(step, str):
            continue
        if step.startswith("<"):
            found = [each for each in found if each[0] == step]
            continue
        fields = [schema.model_fields[step] for _, schema in found if step in schema.model_fields]
        found = [each for field in fields for each in _tagged(field.annotation)]
    return [schema for _, schema in found]


def _tagged(annotation: Any, tag: str | None = None) -> Iterator[tuple[str | None, Schema]]:  # noqa: ANN401
    """Yield the schemas inside of an annotation, each with the tag that its union gives it."""
    if isinstance(annotation, type) and issubclass(annotation, Input):
        yield tag, annotation
        return
    metadata = getattr(annotation, "__metadata__", ())
    own = next((each.tag for each in metadata if isinstance(each, Tag)), tag)
    for argument in get_args(annotation):
        if argument not in metadata:
            yield from _tagged(argument, own)
