"""Numbers with units, as the engine's command line reads them."""

import pytest

from service.engines.flag_values import read_count, read_length


# The first six are the examples in the docstrings of human_readable_int of vLLM 0.32.0, and its code by hand.
@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1k", 1_000),
        ("1K", 1_024),
        ("25.6k", 25_600),
        ("2M", 2_097_152),
        ("5G", 5_368_709_120),
        ("5g", 5_000_000_000),
        ("1.1k", 1_100),
        ("32768", 32_768),
        (" 32K ", 32_768),
    ],
)
def test_a_unit_is_a_power_of_1000_or_of_1024(text: str, number: int) -> None:
    assert read_count(text) == read_length(text) == number


@pytest.mark.parametrize("text", ["1.5K", "k", "1kb", "1 k", "1e3", "", "auto", "1.5"])
def test_other_text_is_no_number(text: str) -> None:
    with pytest.raises(ValueError, match=r"unit|fraction"):
        read_count(text)


@pytest.mark.parametrize("text", ["auto", "AUTO", "-1"])
def test_a_length_may_be_left_to_the_engine(text: str) -> None:
    assert read_length(text) == -1


@pytest.mark.parametrize(
    ("text", "count"), [("11.54GiB", 12390980648), ("5GiB", 5 << 30), ("1.5 MiB", 3 << 19), ("2KiB", 2048)]
)
def test_units_of_bytes_are_powers_of_1024(text: str, count: int) -> None:
    """11.54 GiB are the bytes that vLLM 0.19.0 printed as ``11.54 GiB`` on two RTX 3090."""
    assert read_count(text) == count
