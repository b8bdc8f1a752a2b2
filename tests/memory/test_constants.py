"""The dated constants: complete for every release, and each with its source."""

import pytest
from packaging.version import Version

from service.engines.releases import RELEASES
from service.memory.constants import Range, constants_at
from service.memory.weights.weight_layout import weight_layout_at


@pytest.mark.parametrize("release", RELEASES, ids=str)
def test_every_modelled_release_has_its_constants_with_a_source(release: Version) -> None:
    constants = constants_at(release)

    assert weight_layout_at(release).mxfp4_rounding
    assert all(constants.sources.values())


def test_an_older_release_is_not_dated() -> None:
    with pytest.raises(LookupError):
        constants_at(Version("0.9.0"))


def test_a_range_out_of_order_is_refused() -> None:
    with pytest.raises(ValueError, match="not between"):
        Range(1, 2, 3)
