"""How many GPUs of a type there are, behind its name."""

import pytest

from service.gpus.gpu_count import InvalidCount, split_count


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("h100-sxm-80gb", ("h100-sxm-80gb", None)),
        ("h100-sxm-80gb:8", ("h100-sxm-80gb", 8)),
        ("h100-sxm-80gb:4096", ("h100-sxm-80gb", 4096)),
        ("NVIDIA H100 80GB HBM3:2", ("NVIDIA H100 80GB HBM3", 2)),
        ("a:b", ("a:b", None)),
        ("a:", ("a:", None)),
        (":8", (":8", None)),
        ("a:-1", ("a:-1", None)),
    ],
)
def test_the_number_stands_behind_a_colon(text: str, parts: tuple[str, int | None]) -> None:
    assert split_count(text) == parts


@pytest.mark.parametrize("text", ["h100:0", "h100:4097", "h100:999999999"])
def test_a_number_that_no_machine_has_is_refused(text: str) -> None:
    with pytest.raises(InvalidCount, match="between 1 and 4,096"):
        split_count(text)
