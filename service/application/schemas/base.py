"""Base classes of requests and answers."""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from itertools import islice
from typing import Any, ClassVar, Final, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

UNKNOWN_NAMES: Final = "unknown_names"
"""Type of the single error for more than ``MOST_UNKNOWN`` unknown names."""
MOST_UNKNOWN: Final = 32
NAMES_SHOWN: Final = 10

Part = TypeVar("Part", bound="Input")


class Input(BaseModel):
    """A part of a request: unknown members are refused, and text is not converted to numbers.

    Validators are built at the first use: most classes are used only inside of another, or not at all by a
    command.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)
    also_called: ClassVar[Mapping[str, str]] = {}
    """Members by words that mean them elsewhere, which an error about an unknown name then gives."""

    @model_validator(mode="before")
    @classmethod
    def _few_unknown_names(cls, document: Any) -> Any:  # noqa: ANN401 - whatever was sent
        """Refuse very many unknown names with one error, since Pydantic makes an error for each."""
        if isinstance(document, Mapping) and len(document) > len(cls.model_fields) + MOST_UNKNOWN:
            first = tuple(islice(cls._unknown(document), NAMES_SHOWN))
            count = sum(1 for _ in cls._unknown(document))
            words = "{count} names are not known, of which the first are in `names`"
            raise PydanticCustomError(UNKNOWN_NAMES, words, {"count": count, "names": first})
        return document

    @classmethod
    def _unknown(cls, document: Mapping[Any, Any]) -> Iterator[str]:
        return (str(name) for name in document if name not in cls.model_fields)


def unchecked(part: type[Part], **given: Any) -> Part:  # noqa: ANN401 - members that were checked, or need no check
    """Return what ``part.model_construct`` makes of members, a hundred times as fast.

    For each default that a factory makes, Pydantic reads the factory's signature first: 0.3 ms for two of
    them, and a cycle with a copy of ``sys.modules`` that only a full garbage collection frees.
    """
    factories = {name: field.default_factory for name, field in part.model_fields.items()}
    made = {
        name: cast("Callable[[], Any]", factory)()
        for name, factory in factories.items()
        if factory is not None and name not in given
    }
    return cast("Part", part.model_construct(set(given), **made, **given))


@cache
def unchecked_default(part: type[Part]) -> Part:
    """Return a part of a request in which everything is left out: one object for all requests.

    Defaults need no check, whose validators take as long to build as a tenth of a plan takes.
    """
    return unchecked(part)


class Output(BaseModel):
    """A part of an answer, read from the core's values.

    A member without a default is always there. One made by ``optional`` is left out of the JSON where it is
    ``None``, and is never null there.
    """

    model_config = ConfigDict(from_attributes=True, frozen=True, defer_build=True)
    read_first: ClassVar[tuple[str, ...]] = ()
    """Members that are read before the others: texts are numbered in that order."""


SURVEYED: Final = "Left out where the request names no GPU type, unless `include` has `candidates`"
"""When members that follow from others are left out."""
SURVEYED_TERM: Final = "Left out where the request names no GPU type, unless `include` has `memory`"
SURVEYED_LAYOUT: Final = "Left out where the request names no GPU type, unless `include` has `cache`"


def optional(description: str) -> Any:  # noqa: ANN401 - as pydantic.Field, a default for a member of any type
    """Return the default of a member that answers leave out where it is ``None``."""
    return Field(
        default=None, description=description, exclude_if=_is_none, json_schema_extra=_without_default
    )


def _is_none(value: object) -> bool:
    return value is None


def _without_default(schema: dict[str, Any]) -> None:
    schema.pop("default", None)
