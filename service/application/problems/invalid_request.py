"""What is wrong with a request's values, as one error with the place of each."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from pydantic_core import ErrorDetails

from service.application.errors import MOST_ERRORS, InvalidRequest, UnknownFlag, escaped
from service.application.problems.field_words import field_words
from service.application.problems.known_names import is_flag, meant_in_body, moved_in_body, parameter_meant
from service.application.schemas.base import UNKNOWN_NAMES, Input
from service.application.schemas.flags.flag_objects import EplbInput, SpeculativeInput
from service.application.schemas.flags.serve import ServeInput
from service.application.schemas.requests.plan_parameters import PLACES
from service.engine_plans.engine_plan import ENGINES

Place: TypeAlias = tuple[int | str, ...]
"""Keys and indices down to a value."""
SECTIONS: Final[Mapping[Place, tuple[str, ...]]] = {
    ("serve",): tuple(ServeInput.model_fields),
    ("serve", "speculative_config"): tuple(SpeculativeInput.model_fields),
    ("serve", "eplb_config"): tuple(EplbInput.model_fields),
}
"""Objects of the body whose members are flags of the engine, with the flags that are modelled."""
BODY_TAGS: Final = frozenset({*(f"<{name}>" for name in ENGINES), "<engines>"})


def invalid_request(
    errors: Sequence[ErrorDetails], schema: type[Input] | None = None
) -> InvalidRequest | UnknownFlag:
    """Return the error for what Pydantic found in a body or among flat parameters.

    Args:
        errors: what Pydantic found.
        schema: schema of the body, among whose names a similar one is looked for; None: no names are advised.
    """
    located = [place for error in errors for place in _places(error)]
    unnamed = sum(map(_unnamed, errors))
    for section, known in SECTIONS.items():
        flags = [each for each in located if _is_unknown(each[1]) and each[0][:-1] == section]
        if flags:
            taken = {id(each) for each in flags}
            others = [each for each in located if id(each) not in taken]
            names = [str(place[-1]) for place, _ in flags]
            pairs = _described(others[: max(0, MOST_ERRORS - len(flags))], schema)
            return UnknownFlag(
                names,
                known,
                section=_pointer(section),
                count=len(names) + sum(_unnamed(error) for error in errors if _location(error) == section),
                advice=["" if schema is None else moved_in_body(schema, section, name) for name in names],
                others=pairs,
                more=len(others) - len(pairs),
            )
    return InvalidRequest(_described(located[:MOST_ERRORS], schema), count=len(located) + unnamed)


def _described(
    located: Sequence[tuple[Place, ErrorDetails]], schema: type[Input] | None
) -> list[tuple[str, str]]:
    """Return pointers with what is wrong there. Finding words takes time, so only listed errors get some."""
    return [
        (_pointer(place), "; ".join(filter(None, (field_words(error), _advice(place, error, schema)))))
        for place, error in located
    ]


def _advice(place: Place, error: ErrorDetails, schema: type[Input] | None) -> str:
    """Return what a caller may have meant by an unknown name; empty for other errors, or without a hint."""
    if not _is_unknown(error) or not place:
        return ""
    name = str(place[-1])
    if error["loc"] and error["loc"][0] == "query":
        parameter = parameter_meant(name)
        return "" if parameter is None or is_flag(parameter) else f"use `{parameter}`"
    if schema is None:
        return ""
    inside = error["loc"] if error["type"] == UNKNOWN_NAMES else error["loc"][:-1]
    inside = inside[1:] if inside and inside[0] == "body" else inside
    # The tag says which body was read; its own members are at the root.
    return meant_in_body(schema, inside[1:] if inside and inside[0] in BODY_TAGS else inside, name)


def _places(error: ErrorDetails) -> Iterator[tuple[Place, ErrorDetails]]:
    """Yield the place of an error; an error for many unknown names has the place of each of the first."""
    place = _location(error)
    if error["type"] != UNKNOWN_NAMES:
        yield place, error
        return
    for name in error["ctx"]["names"]:
        yield (*place, name), error


def _unnamed(error: ErrorDetails) -> int:
    """Return the number of unknown names that an error counts without naming them."""
    return error["ctx"]["count"] - len(error["ctx"]["names"]) if error["type"] == UNKNOWN_NAMES else 0


def _is_unknown(error: ErrorDetails) -> bool:
    return error["type"] in {"extra_forbidden", UNKNOWN_NAMES}


def _location(error: ErrorDetails) -> Place:
    loc = error["loc"]
    source, *rest = loc if loc and loc[0] in {"body", "query", "path"} else ("", *loc)
    # Tags, which say which form of a value was read, are no part of the document.
    place = tuple(part for part in rest if not (isinstance(part, str) and part.startswith("<")))
    if source != "query":
        return place
    # An unknown parameter is treated as an unknown flag, unless its name is similar to another parameter's.
    if not place:
        return ("serve",) if error["type"] == UNKNOWN_NAMES else place
    name, *inside = str(place[0]), *place[1:]
    parameter = parameter_meant(name) if error["type"] == "extra_forbidden" else name
    is_unknown_flag = error["type"] == "extra_forbidden" and (parameter is None or is_flag(parameter))
    meant = ("serve", name) if is_unknown_flag else (name,)
    return (*PLACES.get(name, meant), *inside)


def _pointer(place: Place) -> str:
    return "".join(f"/{escaped(part)}" for part in place)
