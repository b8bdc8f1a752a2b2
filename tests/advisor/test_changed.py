"""A changed copy is what the standard library's is."""

from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
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


@dataclass(frozen=True, slots=True)
class WithSlots:
    one: int = 1
    two: int = 2


@dataclass(frozen=True)
class Checked:
    one: int = 1
    two: int = 2

    def __post_init__(self) -> None:
        """Check nothing."""


@pytest.mark.parametrize("value", [WithSlots(), Checked()])
def test_a_type_with_slots_or_an_initializer_of_its_own_is_refused(value: object) -> None:
    """A copy would be without its slots, or without the work of its initializer."""
    with pytest.raises(TypeError, match="more than a dict of its fields"):
        changed(value, one=2)


@dataclass(frozen=True)
class Caching:
    one: int = 1

    @cached_property
    def more(self) -> int:
        """Of the value that it is asked of."""
        return self.one + 1


def test_a_copy_finds_out_by_itself_what_is_cached() -> None:
    given = Caching()
    assert given.more == 2
    assert changed(given, one=2).more == 3
    with pytest.raises(KeyError, match="more"):
        changed(given, more=7)


def test_the_original_stays_as_it_was() -> None:
    given = ServeFlags(max_model_len=1)
    other = changed(given, max_model_len=2)
    assert (given.max_model_len, other.max_model_len) == (1, 2)
    assert given == ServeFlags(max_model_len=1)


def test_values_that_store_changes_are_those_of_any_dataclass() -> None:
    random = Random(20261124)
    names = [each.name for each in fields(ServeFlags)]
    defaults = {each.name: each.default for each in fields(ServeFlags)}
    made = []
    for _ in range(200):
        given: dict[str, Any] = {
            name: random.choice((defaults[name], 7, "auto")) for name in random.sample(names, 3)
        }
        flags, expected = ServeFlags(**given), {**defaults, **given}
        assert asdict(flags) == expected
        made.append((flags, expected))
    for flags, expected in made:
        for other, wanted in made:
            assert (flags == other) is (expected == wanted)
            assert flags != other or hash(flags) == hash(other)
            length = replace(other, max_model_len=flags.max_model_len)
            assert (flags == other.of_length(flags.max_model_len)) is (flags == length)


def test_a_default_is_told_from_a_value_that_is_printed_otherwise() -> None:
    assert changed(ServeFlags(), cpu_offload_gb=0).cpu_offload_gb.__class__ is int
    assert changed(ServeFlags(cpu_offload_gb=1.0), cpu_offload_gb=0.0) == ServeFlags()
