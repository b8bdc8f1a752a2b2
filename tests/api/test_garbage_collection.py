"""Full garbage collections wait for a quiet moment, but not for ever."""

import gc

import pytest

from service.api.garbage_collection import LONGEST_SECONDS, QUIET_SECONDS, QuietCollections


@pytest.mark.parametrize(
    ("seconds", "quiet", "made"),
    [
        (QUIET_SECONDS - 1, True, False),
        (QUIET_SECONDS + 1, True, True),
        (QUIET_SECONDS + 1, False, False),
        (LONGEST_SECONDS + 1, False, True),
    ],
)
def test_a_full_collection_is_made_when_it_is_due(seconds: float, quiet: bool, made: bool) -> None:
    now = 0.0
    collections = QuietCollections(lambda: quiet, lambda: now)
    before = gc.get_stats()[2]["collections"]
    now = seconds
    assert collections.look() is made
    assert (gc.get_stats()[2]["collections"] > before) is made
    assert collections.look() is False
