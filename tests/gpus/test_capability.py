from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.gpus.capability import ComputeCapability


@given(st.integers(1, 999), st.integers(0, 9))
def test_printing_and_parsing_are_inverse(major: int, minor: int) -> None:
    capability = ComputeCapability(major, minor)
    assert ComputeCapability.parse(str(capability)) == capability


def test_order_is_that_of_the_generations_not_of_the_text() -> None:
    generations = ["7.0", "7.5", "8.0", "8.6", "8.9", "9.0", "10.0", "10.3", "11.0", "12.0", "12.1"]
    assert all(ComputeCapability.parse(a) < ComputeCapability.parse(b) for a, b in pairwise(generations))


@pytest.mark.parametrize(
    "text", ["", "8", "8.", ".6", "8.6 ", "sm_86", "8.10", "-8.6", "0.5", "gfx942", "٨.٦"]
)
def test_other_text_is_no_capability(text: str) -> None:
    with pytest.raises(ValueError, match="compute capability"):
        ComputeCapability.parse(text)
