"""Fixes of several changes: as few as are enough, in the order in which an expert tries them."""

import re
import shlex
from dataclasses import replace

import pytest

from service.advisor.candidates.plan_types import Candidate
from service.advisor.candidates.refusal import Fix
from service.advisor.candidates.verdict import Verdict
from service.advisor.plan import plan
from service.advisor.ranking.nearest_refused import nearest_refused
from service.advisor.request.checkpoint_layouts import sibling_named
from service.engines.flags import ServeFlags
from service.units import GIB
from tests.advisor.test_fixes import checked, fixes, requested

GEMMA = "google/gemma-3-27b-it"
GPTQ = "ISTA-DASLab/gemma-3-27b-it-GPTQ-4b-128g"
VISION = "Qwen/Qwen2.5-VL-7B-Instruct"
HYBRID = "Qwen/Qwen3.6-35B-A3B"
QUESTIONS = [
    ("Qwen/Qwen3-32B", "h100-sxm-80gb", ServeFlags()),
    ("Qwen/Qwen3-32B", "l40s-48gb", ServeFlags(max_model_len=32_768)),
    (GEMMA, "h100-sxm-80gb", ServeFlags()),
    (GEMMA, "rtx-4090-24gb", ServeFlags()),
    (VISION, "l4-24gb", ServeFlags()),
    (VISION, "rtx-4080-16gb", ServeFlags(max_model_len=16_384)),
    (HYBRID, "h100-sxm-80gb", ServeFlags(max_model_len=32_768)),
    ("meta-llama/Llama-3.1-70B", "h100-sxm-80gb", ServeFlags(tensor_parallel_size=2)),
]


def options(fix: Fix) -> dict[str, str]:
    """Return the options of a fix's command, by name."""
    words, found = shlex.split(fix.command)[2:], {}
    model, *rest = words
    name = ""
    for word in rest:
        if word.startswith("--"):
            name = word
            found[name] = ""
        else:
            found[name] = word
    return {**found, "model": model}


def longest(fix: Fix, whole: int) -> int:
    return int(options(fix).get("--max-model-len", whole))


@pytest.mark.parametrize(("model", "gpu", "flags"), QUESTIONS)
def test_no_fix_contains_another_that_is_enough(model: str, gpu: str, flags: ServeFlags) -> None:
    """What one change does is not offered again with a second change that lets no longer context through."""
    candidate = checked(model, gpu, "0.33.0", flags, siblings=(GPTQ,) if model == GEMMA else ())
    offered = [fix for fix in fixes(candidate).values() if fix.verdict is Verdict.STARTS]
    made = [set(options(fix).items()) for fix in offered]
    made = [{(name, value) for name, value in each if name != "--max-model-len"} for each in made]
    whole = 10**9

    assert offered
    for one, first in zip(offered, made, strict=True):
        for other, second in zip(offered, made, strict=True):
            assert not (first < second and longest(one, whole) >= longest(other, whole)), other.change


def near_one_card() -> Candidate:
    request = replace(requested(GEMMA, "rtx-4090-24gb", "0.33.0", ServeFlags()), siblings=(GPTQ,))
    near = nearest_refused(plan(request.with_count(1)).plans[0].candidates)
    assert near is not None
    return near


def test_a_4_bit_checkpoint_and_an_fp8_cache_serve_a_long_context_on_one_card() -> None:
    """Gemma 3 27B: 15.7 GiB in 4 bits (``test_fixes``), and 0.92 x 23.52 GiB for all.

    A token takes 10 x 2 x 16 x 128 B in the full attention layers with fp8. Windows of 1,024 tokens take at
    least 52 x 2 x 16 x 128 B x 1,024 beside it, and the profile run and CUDA graphs a part of the memory.
    """
    (fix,) = (each for change, each in fixes(near_one_card()).items() if GPTQ in change)
    asked = options(fix)
    left = 0.92 * 23.52 * GIB - 15.7 * GIB
    windows = 52 * 2 * 16 * 128 * 1024

    assert (asked["model"], asked["--kv-cache-dtype"], fix.verdict) == (GPTQ, "fp8", Verdict.STARTS)
    assert 28_672 <= int(asked["--max-model-len"]) < (left - windows) / (10 * 2 * 16 * 128)


def test_a_combined_fix_starts_as_it_is_printed() -> None:
    (fix,) = (each for change, each in fixes(near_one_card()).items() if GPTQ in change)
    request = requested(GEMMA, "rtx-4090-24gb", "0.33.0", ServeFlags(), search=False)
    sibling = sibling_named(request.model, GPTQ)
    assert sibling is not None
    printed = options(fix)
    flags = ServeFlags(
        kv_cache_dtype=printed["--kv-cache-dtype"], max_model_len=int(printed["--max-model-len"])
    )
    (candidate,) = plan(replace(request, model=sibling.model, serve=flags)).plans[0].candidates

    assert candidate.verdict is Verdict.STARTS
    assert candidate.kv_cache is not None
    assert (candidate.kv_cache.tokens, candidate.kv_cache.max_concurrency) == (
        fix.tokens,
        fix.max_concurrency,
    )


def test_an_fp8_cache_alone_is_enough_for_half_of_the_bytes() -> None:
    """Qwen3-32B: 64 x 2 x 8 x 128 B x 40,960 tokens are 5.0 GiB with fp8; 16 bits need 10."""
    candidate = checked("Qwen/Qwen3-32B", "h100-sxm-80gb", "0.33.0", ServeFlags())
    memory = candidate.memory
    assert memory is not None
    assert 64 * 2 * 8 * 128 * 40_960 == 5 * GIB < memory.available_kv.low < 10 * GIB
    assert fixes(candidate)["--kv-cache-dtype fp8"].verdict is Verdict.STARTS


def test_two_gpus_are_offered_without_quantized_weights_where_these_are_not_needed() -> None:
    """Qwen3-32B: 32.8 billion parameters of 16 bits take half of 61 GiB on each of two H100."""
    flags = ServeFlags(kv_cache_dtype="fp8", max_model_len=40_960, gpu_memory_utilization=0.8)
    found = fixes(checked("Qwen/Qwen3-32B", "h100-sxm-80gb", "0.33.0", flags))
    assert "--tensor-parallel-size 2" in found
    assert not [each for each in found if "parallel-size" in each and "--quantization" in each]


@pytest.mark.parametrize("flags", [ServeFlags(), ServeFlags(max_model_len=32_768)])
def test_a_model_keeps_its_encoders_where_something_else_helps(flags: ServeFlags) -> None:
    offered = list(fixes(checked(VISION, "l4-24gb", "0.33.0", flags)))
    assert not [each for each in offered if "--language-model-only" in each]
    assert "--max-model-len" in offered[0]


@pytest.mark.parametrize(
    ("model", "gpu"), [("Qwen/Qwen3-8B", "l4-24gb"), ("Qwen/Qwen3-32B", "h100-sxm-80gb")]
)
def test_proposed_lengths_are_rounded_down_as_a_search_rounds_them(model: str, gpu: str) -> None:
    """The memory that is estimated tells no more of a length than its first digits."""
    found = fixes(checked(model, gpu, "0.33.0", ServeFlags()))
    lengths = [int(each.rpartition(" ")[2]) for each in found if each.startswith("--max-model-len")]

    assert lengths
    assert all(length % 1024 == 0 for length in lengths)


def test_as_many_sequences_as_the_engine_names_are_offered() -> None:
    """The engine's own words: "Please lower max_num_seqs to at most N"."""
    candidate = checked(HYBRID, "h100-sxm-80gb", "0.33.0", ServeFlags(max_model_len=32_768))
    assert candidate.error is not None
    named = re.search(r"lower max_num_seqs to at most (\d+)", candidate.error.message)
    assert named is not None
    fix = fixes(candidate)[f"--max-num-seqs {named[1]}"]

    # The cache may have no block at all, as the refusal says, so that this is not sure to start.
    assert fix.verdict is Verdict.UNCERTAIN
    changed = ServeFlags(max_model_len=32_768, max_num_seqs=int(named[1]))
    again = checked(HYBRID, "h100-sxm-80gb", "0.33.0", changed)
    assert again.kv_cache is not None
    assert again.kv_cache.num_blocks >= int(named[1])


@pytest.mark.parametrize(
    ("model", "slots"),
    [
        # One group of full attention: a block holds 16 tokens, so tokens are what they seem to be.
        ("Qwen/Qwen3-8B", True),
        # Windows give their blocks back, so the cache stores fewer tokens than the log says.
        (GEMMA, False),
    ],
)
def test_logged_tokens_are_explained_where_they_are_no_slots(model: str, *, slots: bool) -> None:
    cache = checked(model, "h200-sxm-141gb", "0.33.0", ServeFlags()).kv_cache
    assert cache is not None
    assert (0 <= cache.num_blocks * 16 - cache.tokens < 16 * (cache.max_concurrency + 1)) == slots
    candidate = checked(model, "h200-sxm-141gb", "0.33.0", ServeFlags())
    assert any("not token slots" in each for each in candidate.notes) != slots
