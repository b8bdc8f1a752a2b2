"""Lengths that depend on the memory: what a lever makes room for, and what ``auto`` may become."""

from dataclasses import replace
from typing import Any

import pytest

from service.advisor.candidates.lever import Lever
from service.advisor.candidates.plan_types import Candidate
from service.advisor.candidates.verdict import Verdict
from service.advisor.plan import plan
from service.engines.flags import ServeFlags
from service.units import GIB
from tests.advisor.test_fixes import checked, requested

MODEL, GPU, RELEASE = "Qwen/Qwen3-32B", "h100-sxm-80gb", "0.33.0"
TOKEN = 64 * 2 * 8 * 128
"""Elements of a token of Qwen3-32B: layers, keys and values, heads, head size."""


def levers() -> tuple[Lever, ...]:
    return plan(requested(MODEL, GPU, RELEASE, ServeFlags(), with_levers=True)).plans[0].levers


def test_an_fp8_lever_says_that_the_whole_context_fits() -> None:
    """40,960 tokens of one byte an element are 5.0 GiB, of two 10.0, and between 5.4 and 8.7 GiB are left."""
    best = plan(requested(MODEL, GPU, RELEASE, ServeFlags())).plans[0].recommended
    assert best is not None
    assert best.memory is not None
    assert best.flags.max_model_len is not None
    assert 40_960 * TOKEN < best.memory.available_kv.low < 40_960 * TOKEN * 2
    (fp8,) = (each for each in levers() if each.value == "fp8")
    assert fp8.longest_context == 40_960


def test_the_context_of_a_lever_is_the_longest_that_is_sure_to_fit() -> None:
    """As planned alone: it starts for sure, and with 1,024 tokens more it is not sure to."""
    found = [each for each in levers() if each.flag is not None and each.longest_context is not None]
    assert len(found) > 3
    for lever in found:
        assert lever.flag is not None
        assert lever.longest_context is not None
        change: dict[str, Any] = {lever.flag: lever.value}
        flags = replace(ServeFlags(max_model_len=lever.longest_context), **change)
        assert checked(MODEL, GPU, RELEASE, flags).verdict is Verdict.STARTS, lever.change
        longer = flags.of_length(lever.longest_context + 1024)
        assert checked(MODEL, GPU, RELEASE, longer).verdict is not Verdict.STARTS, lever.change


def test_a_context_that_was_given_is_not_made_longer() -> None:
    asked = requested(MODEL, GPU, RELEASE, ServeFlags(max_model_len=16_384), with_levers=True)
    found = plan(asked).plans[0].levers
    assert found
    assert not [each for each in found if each.longest_context is not None]


def fitted(model: str, **more: object) -> Candidate:
    return checked(model, GPU, RELEASE, ServeFlags(max_model_len=-1), **more)


def test_auto_becomes_a_length_within_what_memory_is_left() -> None:
    """Blocks of 16 tokens in 16 bits, of the least and of the most memory that may be left.

    No request gets the first block of the pool (vLLM 0.33.0, BlockPool.null_block).
    """
    candidate = fitted(MODEL)
    assert candidate.kv_cache is not None
    assert candidate.memory is not None
    cache, left = candidate.kv_cache, candidate.memory.available_kv
    block = 16 * TOKEN * 2

    assert cache.max_model_len_low == (left.low // block - 1) * 16
    assert cache.max_model_len_high == (left.high // block - 1) * 16
    assert 5 * GIB < left.low < left.high < 10 * GIB


@pytest.mark.parametrize(
    ("end", "verdict"), [("max_model_len_low", Verdict.STARTS), ("max_model_len_high", Verdict.UNCERTAIN)]
)
def test_a_length_that_is_given_is_judged_as_the_interval_says(end: str, verdict: Verdict) -> None:
    """The same length as a number: sure at the lower end, possible at the upper, refused beyond it."""
    length = getattr(fitted(MODEL).kv_cache, end)
    assert checked(MODEL, GPU, RELEASE, ServeFlags(max_model_len=length)).verdict is verdict
    beyond = checked(MODEL, GPU, RELEASE, ServeFlags(max_model_len=length + 16)).verdict
    assert beyond is (Verdict.UNCERTAIN if verdict is Verdict.STARTS else Verdict.REFUSED)


def test_a_length_that_fits_in_any_case_has_no_interval() -> None:
    """Qwen3-8B: 40,960 x 36 x 2 x 8 x 128 x 2 B are 5.6 GiB, and an H100 has 50 beside its weights."""
    whole = fitted("Qwen/Qwen3-8B").kv_cache
    given = checked("Qwen/Qwen3-8B", GPU, RELEASE, ServeFlags(max_model_len=8192)).kv_cache
    assert whole is not None
    assert given is not None
    assert whole.max_model_len_low == whole.max_model_len_high == 40_960
    assert given.max_model_len_low is given.max_model_len_high is None


def test_weights_and_cache_both_have_8_bits_where_one_alone_leaves_a_short_context() -> None:
    """Qwen3-8B on a card of 16 GiB: 36 x 2 x 8 x 128 elements a token, of which 16,384 tokens should be kept.

    8.2 billion parameters of 16 bits take 15.3 GiB, more than 84 % of the card; of 8 bits they take 8.8.
    """
    flags = ServeFlags(gpu_memory_utilization=0.84)
    asked = requested("Qwen/Qwen3-8B", "rtx-4080-16gb", RELEASE, flags).with_count(1)
    best = plan(asked).plans[0].recommended
    assert best is not None
    assert best.gpus == 1
    assert best.memory is not None
    assert best.flags.max_model_len is not None
    token, left = 36 * 2 * 8 * 128, best.memory.available_kv.low

    assert left // (token * 2) < 16_384 <= left // token
    assert (best.flags.quantization, best.flags.kv_cache_dtype) == ("fp8_per_tensor", "fp8")
    assert left // token - 2048 < best.flags.max_model_len <= left // token
