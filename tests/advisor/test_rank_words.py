"""Numbers of requests in words: never more than the caches hold."""

from math import floor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.advisor.words.rank_words import requests_held


@pytest.mark.parametrize(
    ("of_each", "caches", "words"),
    [(1.99, 1, "1.9"), (22.75, 1, "22"), (2.67, 8, "16"), (5.6, 16, "80"), (1234.5, 1, "1,234")],
)
def test_requests_are_rounded_down_in_each_cache(of_each: float, caches: int, words: str) -> None:
    """1.99 requests are less than two; eight caches with room for 2.67 hold two each."""
    assert requests_held(of_each, caches) == words


@given(st.floats(1, 10_000), st.integers(1, 64))
def test_no_more_is_said_than_fits(of_each: float, caches: int) -> None:
    said = float(requests_held(of_each, caches).replace(",", ""))

    assert said <= of_each * caches
    assert said >= floor(of_each) * caches
