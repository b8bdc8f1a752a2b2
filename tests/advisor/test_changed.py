"""A changed copy is what the standard library's is."""

from dataclasses import dataclass, fields, replace
from random import Random
from typing import Any

import pytest

from service.changed import changed
from service.engines.flags import ServeFlags


def test_a_changed_copy_equals_that_of_the_standard_library() -> None:
    random = Random(20261123)
    names = [each.name for each in fields(ServeFlags)]
    given = ServeFlags(tensor_parallel_size=2, environment=(("A", "b"),))
    for _ in range(50):
        changes: dict[str, Any] = {name: random.choice((None, 1, "auto")) for name in random.sample(names, 3)}
        assert changed(given, **changes) == replace(given, **changes)
    assert given == ServeFlags(tensor_parallel_size=2, environment=(("A", "b"),))


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(KeyError, match="no_such_flag"):
        changed(ServeFlags(), no_such_flag=1)


@dataclass(frozen=True)
class WithoutSlots:
    one: int = 1
    two: int = 2


@dataclass(frozen=True, slots=True)
class Checked:
    one: int = 1
    two: int = 2

    def __post_init__(self) -> None:
        """Check nothing."""


@pytest.mark.parametrize("value", [WithoutSlots(), Checked()])
def test_a_type_with_more_than_its_slots_is_refused(value: object) -> None:
    """Its initializer would do more than to store the fields."""
    with pytest.raises(TypeError, match="more than its slots"):
        changed(value, one=2)
