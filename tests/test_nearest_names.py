"""Similar names are found whatever the case of their letters."""

import pytest

from service.nearest_names import nearest


@pytest.mark.parametrize(
    ("given", "known", "found"),
    [
        ("COMMAND", ("command", "model"), ("command",)),
        ("gpu_Memory_utilisation", ("gpu_memory_utilization", "gpus"), ("gpu_memory_utilization",)),
        ("triton_attn", ("TRITON_ATTN", "TRITON_MLA"), ("TRITON_ATTN", "TRITON_MLA")),
        ("zzz", ("command", "model"), ()),
        ("m" * 201, ("m" * 200,), ()),
    ],
)
def test_names_are_near_by_their_letters(given: str, known: tuple[str, ...], found: tuple[str, ...]) -> None:
    assert nearest(given, known) == found
