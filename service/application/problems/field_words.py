"""Says in plain words what is wrong with a value that a schema refuses."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Final, get_args

from annotated_types import Ge, Gt, Le, Lt
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from service.application.schemas.base import UNKNOWN_NAMES, Input
from service.application.schemas.requests.renamed import TWICE
from service.gpus.own_gpu import FORM
from service.nearest_names import cut

SHOWN: Final = 40
"""Characters of a refused text that are repeated."""
GROUPED_FROM: Final = 10_000
"""Numbers from here on are written with separators."""
BOUNDS: Final = frozenset({"greater_than", "greater_than_equal", "less_than", "less_than_equal"})
SAID: Final = frozenset({"unknown_argument", "unknown_engine", "unknown_quantization", TWICE})
"""Errors of our own schemas, which say themselves what is wrong."""
OBJECTS: Final = frozenset(
    {"dict_type", "model_type", "model_attributes_type", "dataclass_type", "mapping_type"}
)
FORMS: Final[Mapping[str, str]] = {
    "gpus": f"the id of a GPU type, a GPU such as {FORM}, or an object that describes one",
    "gpu": f"the id of a GPU type, a GPU such as {FORM}, or an object that describes one",
    "speculative_config": 'an object, such as {"method": "ngram", "num_speculative_tokens": 3}',
}
"""What a value must be, where an object is not the only form, or needs an example; by name."""
LIMITS: Final[Mapping[type, str]] = {Ge: "ge", Gt: "gt", Le: "le", Lt: "lt"}
"""Constraints of a number, by their class, with the name of their value."""
KINDS: Final[Mapping[str, str]] = {
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_parsing_size": "a whole number of fewer digits",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_type": "text",
    "string_unicode": "valid Unicode text",
    "string_sub_type": "text",
    "list_type": "a list",
    "tuple_type": "a list",
    "none_required": "null",
}
"""What a value must be, by the type of the error."""


def field_words(error: ErrorDetails) -> str:
    """Return what is wrong with a value, as the rest of a sentence that begins with the value's name."""
    kind = error["type"]
    if kind in BOUNDS:
        return f"must be {_range(error)} {_got(error, is_number=True)}"
    if kind in SAID:
        return error["msg"]
    if kind in KINDS:
        return f"must be {KINDS[kind]} {_got(error)}"
    if kind in OBJECTS:
        names = [str(part) for part in error["loc"] if isinstance(part, str) and not part.startswith("<")]
        return f"must be {FORMS.get(names[-1] if names else '', 'an object')} {_got(error)}"
    return _OTHERS.get(kind, _other)(error)


def _context(error: ErrorDetails, name: str) -> str:
    return str(error.get("ctx", {}).get(name, ""))


def _got(error: ErrorDetails, *, is_number: bool = False) -> str:
    value = error["input"]
    if value is None:
        return "(got null)"
    if isinstance(value, bool):
        return f"(got {str(value).lower()})"
    if isinstance(value, str):
        return f"(got {cut(value, SHOWN)})" if is_number else f"(got {cut(value, SHOWN)!r})"
    if isinstance(value, int | float):
        return f"(got {cut(_number(value), SHOWN)})"
    return "(got a list)" if isinstance(value, list | tuple) else "(got an object)"


def _number(value: float) -> str:
    if not isinstance(value, int):
        return f"{value:g}"
    if value.bit_length() > 256:  # noqa: PLR2004 - more digits than are shown; writing them takes time
        return "a very large number"
    return f"{value:,}" if abs(value) >= GROUPED_FROM else str(value)


def _range(error: ErrorDetails) -> str:
    limits = _limits(str(error["loc"][-1]) if error["loc"] else "") or _own_limit(error)
    low, high = limits.get("ge", limits.get("gt")), limits.get("le", limits.get("lt"))
    if low is None:
        return f"{'at most' if 'le' in limits else 'below'} {_number(high or 0)}"
    if high is None:
        return f"{'at least' if 'ge' in limits else 'above'} {_number(low)}"
    if error["input"] in {limits.get("gt"), limits.get("lt")}:
        above = "at least" if "ge" in limits else "above"
        return f"{above} {_number(low)} and {'at most' if 'le' in limits else 'below'} {_number(high)}"
    return f"between {_number(low)} and {_number(high)}"


def _own_limit(error: ErrorDetails) -> dict[str, float]:
    return {name: value for name, value in error.get("ctx", {}).items() if name in {"ge", "gt", "le", "lt"}}


@cache
def _limits(name: str) -> dict[str, float]:
    """Return both limits of a number; empty where two schemas have different ones under this name."""
    found = [
        dict(_limits_of(schema.model_fields[name])) for schema in _schemas() if name in schema.model_fields
    ]
    return found[0] if found and all(each == found[0] for each in found) else {}


def _schemas() -> Iterator[type[Input]]:
    waiting = Input.__subclasses__()
    while waiting:
        schema = waiting.pop()
        waiting += schema.__subclasses__()
        yield schema


def _limits_of(field: FieldInfo) -> Iterator[tuple[str, float]]:
    yield from _constraints(field.metadata)
    yield from _inner_limits(field.annotation)


def _inner_limits(annotation: Any) -> Iterator[tuple[str, float]]:  # noqa: ANN401 - any annotation
    metadata = getattr(annotation, "__metadata__", ())
    yield from _constraints(metadata)
    for each in metadata:
        if isinstance(each, FieldInfo):
            yield from _constraints(each.metadata)
    for argument in get_args(annotation):
        if argument not in metadata:
            yield from _inner_limits(argument)


def _constraints(metadata: Iterable[object]) -> Iterator[tuple[str, float]]:
    for each in metadata:
        for kind, name in LIMITS.items():
            if isinstance(each, kind):
                yield name, getattr(each, name)


def _length(error: ErrorDetails) -> str:
    context, unit = error.get("ctx", {}), "items" if error["type"].startswith("too") else "characters"
    if "min_length" in context:
        return f"must have at least {_counted(context['min_length'], unit)}"
    return f"must have at most {_counted(context['max_length'], unit)}"


def _counted(number: int, unit: str) -> str:
    return f"{_number(number)} {unit[:-1] if number == 1 else unit}"


def _other(error: ErrorDetails) -> str:
    """Return the words of a validator of ours, or that the value is not valid."""
    reason = error.get("ctx", {}).get("error")
    return str(reason) if reason is not None else "is not a valid value"


_OTHERS: Final[Mapping[str, Callable[[ErrorDetails], str]]] = {
    "missing": lambda _: "is missing",
    "json_invalid": lambda error: f"is not JSON: {_context(error, 'error')}",
    "extra_forbidden": lambda _: "is not known",
    UNKNOWN_NAMES: lambda _: "is not known",
    "literal_error": lambda error: f"must be {_context(error, 'expected')} {_got(error)}",
    "enum": lambda error: f"must be {_context(error, 'expected')} {_got(error)}",
    "string_pattern_mismatch": lambda error: f"must match {_context(error, 'pattern')} {_got(error)}",
    "string_too_short": _length,
    "string_too_long": _length,
    "too_short": _length,
    "too_long": _length,
}
