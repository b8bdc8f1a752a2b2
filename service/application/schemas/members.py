"""How members of an answer are found in the core's values, where it is not by the attribute of their name.

These stand in the annotations of a schema, so that each member is named once. ``plain_values`` reads them.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
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
    """The member is in the answer where the request includes a part, which is a field of ``Parts``."""

    part: str


@dataclass(frozen=True, slots=True)
class Numbered:
    """The member is the id of a text, which is written once for all members that have it."""


@dataclass(frozen=True, slots=True)
class Writing:
    """What one answer is written with."""

    parts: Parts = PLAIN
    texts: Texts = field(default_factory=lambda: Texts("s"))


@dataclass(frozen=True, slots=True)
class WrittenMember:
    """A member that was written before, as JSON."""

    json: str | bytes
