"""How members of an answer are found in the core's values, where it is not by the attribute of their name.

These stand in the annotations of a schema, so that each member is named once. ``plain_values`` reads them.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from service.application.schemas.parts import PLAIN, Parts, Texts


def itself(value: object) -> object:
    """Return a value, whose own attributes are the members of a part."""
    return value


@dataclass(frozen=True, slots=True)
class From:
    """The member is found by a path of attributes, such as ``launch.line``, or by a function of the value."""

    way: str | Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class In:
    """The member is in the answer where the request has a part, which is a field or property of ``Parts``."""

    part: str


@dataclass(frozen=True, slots=True)
class Numbered:
    """The member is the id of a text, which is written once for all members that have it."""


@dataclass(frozen=True, slots=True)
class SaidOnce:
    """Texts that the answer says once for all GPU types are left out; others are written as ``WholeOnce``."""


@dataclass(frozen=True, slots=True)
class WholeOnce:
    """The text of the member is whole the first time; answers for many GPU types shorten it after that."""


@dataclass(frozen=True, slots=True)
class Writing:
    """What one answer is written with."""

    parts: Parts = PLAIN
    said: tuple[str, ...] = ()
    """Texts that the answer says once for all GPU types."""
    in_short: bool = False
    """Whether long texts are shortened where they are repeated."""
    texts: Texts = field(default_factory=lambda: Texts("s"))
    forms: dict[type, Any] = field(init=False, compare=False, repr=False)
    """How the members of each schema are found with these parts, as ``plain_values`` notes it."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "forms", _forms(self.parts))

    def text(self, text: str) -> str:
        """Return a text, shortened where it is repeated in an answer in short."""
        return self.texts.once_whole(text) if self.in_short else text


@cache
def _forms(parts: Parts) -> dict[type, Any]:
    """Return what all answers with the same parts share: the parts are compared once for an answer."""
    del parts
    return {}


@dataclass(frozen=True, slots=True)
class WrittenMember:
    """A member that was written before, as JSON."""

    json: str | bytes
