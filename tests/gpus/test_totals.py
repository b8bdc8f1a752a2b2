import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.gpus.totals import MemoryTotal
from service.units import GIB, MIB, gib_text

sizes = st.integers(GIB, 512 * GIB)


@given(sizes)
def test_what_vllm_prints_contains_what_it_measured(size: int) -> None:
    text = f"{round(size / GIB, 2):.2f} GiB"
    total = MemoryTotal.printed(text)
    assert total.low <= size <= total.high
    assert f"{gib_text(total.value)} GiB" == text


@given(sizes)
def test_whole_mib_are_cut_not_rounded(size: int) -> None:
    total = MemoryTotal.printed(f"{size // MIB} MiB")
    assert total.low <= size <= total.high
    assert total.high - total.low == MIB - 1


@given(sizes)
def test_bytes_are_exact(size: int) -> None:
    assert MemoryTotal.printed(f"{size} B") == MemoryTotal(size, size, size)


def test_two_decimals_of_a_3090_by_hand() -> None:
    # 23.56 * 2**30 = 25297357373.44; 23.555 and 23.565 give 25291988664.32 and 25302726082.56.
    assert MemoryTotal.printed("23.56 GiB") == MemoryTotal(25_297_357_373, 25_291_988_665, 25_302_726_082)


@pytest.mark.parametrize("text", ["", "23.56", "23.56 GB", "24 GiB", "24126.5 MiB", "-1 MiB", "23,56 GiB"])
def test_other_text_is_no_total(text: str) -> None:
    with pytest.raises(ValueError, match="is not a printed total"):
        MemoryTotal.printed(text)


@pytest.mark.parametrize(("value", "low", "high"), [(5, 6, 7), (5, 4, 4), (0, 0, 0)])
def test_an_interval_lies_around_its_value(value: int, low: int, high: int) -> None:
    with pytest.raises(ValueError, match="interval"):
        MemoryTotal(value, low, high)


def test_a_limit_below_the_value_is_refused() -> None:
    with pytest.raises(ValueError, match="interval"):
        MemoryTotal(10, 9, 11).below(9)
