"""Similar names are found whatever the case of their letters."""

import pytest

from service.nearest_names import few_of, is_slip, nearest, similarity


@pytest.mark.parametrize(
    ("given", "known", "found"),
    [
        ("COMMAND", ("command", "model"), ("command",)),
        ("gpu_Memory_utilisation", ("gpu_memory_utilization", "gpus"), ("gpu_memory_utilization",)),
        ("triton_attn", ("TRITON_ATTN", "TRITON_MLA"), ("TRITON_ATTN", "TRITON_MLA")),
        ("zzz", ("command", "model"), ()),
        ("m" * 201, ("m" * 200,), ()),
        ("4900", ("4080", "4000", "4090"), ("4090", "4000", "4080")),
        ("gtpq", ("gguf", "gptq"), ("gptq",)),
    ],
)
def test_names_are_near_by_their_letters(given: str, known: tuple[str, ...], found: tuple[str, ...]) -> None:
    assert nearest(given, known) == found


@pytest.mark.parametrize(
    ("given", "known", "shared", "slips"),
    [
        ("4900", "4090", 3, 0.5),  # two letters swapped
        ("4900", "4000", 3, 1),  # one replaced
        ("awqq", "awq", 3, 1),  # one too many
        (
            "ca",
            "abc",
            1,
            3,
        ),  # b between letters that change places: a swapped pair is not parted, so all three are wrong
        ("", "ab", 0, 2),
    ],
)
def test_the_similarity_is_the_mean_of_shared_letters_and_of_slips(
    given: str, known: str, shared: int, slips: float
) -> None:
    of_shared = 2 * shared / (len(given) + len(known))
    of_slips = 1 - slips / max(len(given), len(known))
    assert similarity(given, known) == pytest.approx((of_shared + of_slips) / 2)


def test_of_many_names_few_are_said() -> None:
    assert few_of((), ("a", "b"), "X lists all") == "choices: a, b"
    assert few_of((), tuple("abcdefgh"), "X lists all") == "none of 8 is spelt alike; X lists all"
    many = tuple(f"name{n}" for n in range(40))
    assert few_of(many, many, "X lists all") == (
        "nearest of 40: name0, name1, name2, name3, name4; X lists all"
    )


@pytest.mark.parametrize(
    ("given", "known", "slip"),
    [
        ("Qwen/Qwen3-8BB", "Qwen/Qwen3-8B", True),
        ("qwen/qwen3-B8", "Qwen/Qwen3-8B", True),
        ("google/gemma-4-13B-it", "google/gemma-4-31B-it", True),
        ("Qwen/Qwen2.5-3B", "Qwen/Qwen2.5-7B", False),
        ("Qwen/Qwen3-8B-FP8", "Qwen/Qwen3-8B", False),
        ("a" * 300, "a" * 299, False),
    ],
)
def test_a_mistyped_name_is_told_from_another_one(given: str, known: str, slip: bool) -> None:
    assert is_slip(given, known) is slip
