"""The dated constants: complete for every release, each with its source, and the values that were recorded.

The recording was made from the data when every change still restated its value whole, by the loaders of that
time. If a release turns out to behave otherwise, change the recorded value too, and give the source in the
commit.
"""

import gzip
import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version

from service.engines.releases import RELEASES
from service.memory.constants import constants_at
from service.memory.ranges import MibRange, Range, for_capability
from service.memory.weights.weight_layout import Rounding, weight_layout_at
from service.units import MIB

RECORDED = Path(__file__).parents[1] / "data" / "memory" / "constants.json.gz"
CAPABILITIES = [(7, 5), (8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (10, 3), (11, 0), (12, 0), (12, 1)]


@cache
def recorded() -> Mapping[str, Mapping[str, Mapping[str, Any]]]:
    """Return the recorded values by release, group and field."""
    found: Mapping[str, Mapping[str, Mapping[str, Any]]] = json.loads(gzip.decompress(RECORDED.read_bytes()))
    return found


def groups(release: Version) -> Mapping[str, Any]:
    """Return all groups of constants of a release by name."""
    both = (constants_at(release), weight_layout_at(release))
    return {field.name: getattr(record, field.name) for record in both for field in fields(record)}


def plain(value: object) -> Any:  # noqa: ANN401 - whatever JSON holds
    """Return a value as JSON states it: sets as sorted lists, records as tables."""
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {name: plain(entry) for name, entry in value.items()}
    if isinstance(value, frozenset):
        return sorted(map(plain, value))
    return list(map(plain, value)) if isinstance(value, tuple) else value


@pytest.mark.parametrize("release", [str(release) for release in RELEASES if str(release) in recorded()])
def test_every_constant_has_its_recorded_value(release: str) -> None:
    found = plain(groups(Version(release)))
    expected = recorded()[release]
    assert {
        group: {field: found[group][field] for field in values} for group, values in expected.items()
    } == expected


def test_the_recording_covers_the_constants() -> None:
    """No recorded release, group or field is gone: a renamed one would be compared with nothing."""
    assert set(recorded()) <= set(map(str, RELEASES))
    newest = plain(groups(RELEASES[-1]))
    for expected in recorded().values():
        for group, values in expected.items():
            assert set(values) <= set(newest[group])


@pytest.mark.parametrize("release", RELEASES, ids=str)
def test_every_modelled_release_has_constants_with_sources(release: Version) -> None:
    constants = constants_at(release)
    for field in fields(constants):
        group = getattr(constants, field.name)
        assert {each.name for each in fields(group)} == {*group.sources, "sources"}
        assert all(group.sources.values())


def test_a_source_is_that_of_the_change_in_force() -> None:
    before, after = (constants_at(Version(release)).device for release in ("0.13.0", "0.14.0"))
    assert not before.rounds_up
    assert after.rounds_up
    assert "vLLM 0.13.0" in before.sources["rounds_up"]
    assert "math.ceil" in after.sources["rounds_up"]


def test_an_older_release_is_not_dated() -> None:
    for dated_at in (constants_at, weight_layout_at):
        with pytest.raises(LookupError):
            dated_at(Version("0.9.0"))


@pytest.mark.parametrize("kind", [Range, MibRange])
def test_a_range_out_of_order_is_refused(kind: type[Range | MibRange]) -> None:
    with pytest.raises(ValueError, match="not between"):
        kind(1, 2, 3)


def test_sizes_in_mib_become_whole_bytes() -> None:
    sizes = MibRange(8, -4, 60).bytes
    assert sizes == (8 * MIB, -4 * MIB, 60 * MIB)
    assert all(type(size) is int for size in sizes)


@pytest.mark.parametrize(
    ("capability", "hidden"), [((7, 0), 1), ((7, 5), 1), ((8, 9), 1), ((9, 0), 2), ((12, 1), 2)]
)
def test_a_gpu_takes_the_last_entry_that_it_reaches_or_else_the_first(
    capability: tuple[int, int], hidden: int
) -> None:
    entries = (Rounding((7, 5), 1, 0), Rounding((9, 0), 2, 0))
    assert for_capability(entries, capability).hidden == hidden


@pytest.mark.parametrize("release", RELEASES, ids=str)
def test_the_capability_that_stands_for_others_builds_the_same(release: Version) -> None:
    """Sizes are cached by it: a GPU must not get the experts or routers of another one."""
    layout = weight_layout_at(release)
    for capability in CAPABILITIES:
        other = layout.representative(capability)
        assert layout.decoder.float32_routers(other) == layout.decoder.float32_routers(capability)
        for mxfp4 in (False, True):
            assert layout.quantized.rounding(other, mxfp4=mxfp4) == layout.quantized.rounding(
                capability, mxfp4=mxfp4
            )
