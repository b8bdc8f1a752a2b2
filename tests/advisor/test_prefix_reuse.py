"""Which shared prefixes are found again, against the engine's rules worked out by hand.

The length of a hit is a multiple of every group's block size (vLLM 0.19.1,
HybridKVCacheCoordinator.lcm_block_size).
"""

from dataclasses import replace
from math import lcm
from typing import Any

import pytest

from service.advisor.candidates.plan_types import Candidate
from service.advisor.candidates.prefix_reuse import PrefixReuse
from service.advisor.dry_runs.dry_run import dry_run
from service.advisor.request.plan_request import Model, PlanRequest, Workload
from service.engines.flags import ServeFlags
from service.engines.releases import find_release, rules_for
from service.gpus.catalog import find_gpu
from service.kv_cache.specs import StateSpec
from tests.accuracy.oracle import bundled_architecture

HYBRID, DENSE, WINDOWED = "Qwen/Qwen3.6-35B-A3B", "meta-llama/Llama-3.1-8B", "google/gemma-3-27b-it"
LIMITS = {"max_model_len": 32768, "max_num_seqs": 16, "kv_cache_dtype": "auto", "tensor_parallel_size": 2}


def planned(model: str, release: str, workload: Workload | None = None, **flags: Any) -> Candidate:  # noqa: ANN401
    given: dict[str, Any] = {**LIMITS, **flags}
    serve = replace(ServeFlags(), **given)
    gpu = find_gpu("h100-sxm-80gb")
    source = Model(model, None, "test", bundled_architecture(model))
    return dry_run(
        PlanRequest(source, (gpu,), serve=serve, workload=workload),
        serve,
        rules_for(find_release(release)),
        gpu,
    )


def reuse(candidate: Candidate) -> PrefixReuse:
    assert candidate.prefix_reuse is not None, candidate.error
    return candidate.prefix_reuse


def test_a_model_of_one_kind_shares_every_block() -> None:
    candidate = planned(DENSE, "0.28.0")
    found = reuse(candidate)

    assert candidate.kv_cache is not None
    assert (found.step_tokens, found.smallest_prefix_tokens, found.blocks) == (16, 16, 1)
    assert found.kept_when_idle == candidate.kv_cache.num_blocks - 1
    assert found.kept_beside_workload is None


def test_a_hybrid_shares_whole_blocks_of_attention_and_states() -> None:
    """Blocks are as large as a state: hundreds of tokens, which is why short prompts never share anything."""
    candidate = planned(HYBRID, "0.25.1", enable_prefix_caching=True)
    found = reuse(candidate)

    assert candidate.start is not None
    groups = candidate.start.layout.groups
    assert any(isinstance(group.spec, StateSpec) for group in groups)
    assert found.smallest_prefix_tokens == lcm(*(group.spec.block_size for group in groups))
    assert found.smallest_prefix_tokens > 500
    # A block of each group of attention, and a state of each group of states.
    assert found.blocks == len(groups)


def test_a_hybrid_without_prefix_caching_says_so() -> None:
    found = reuse(planned(HYBRID, "0.25.1", enable_prefix_caching=False))

    assert (found.step_tokens, found.kept_when_idle) == (None, None)
    assert "prefix caching is off" in found.explanation


@pytest.mark.parametrize(("release", "step"), [("0.26.0", 16), ("0.33.0", 16)])
def test_a_prefix_can_end_inside_a_block_where_an_earlier_prompt_ended(release: str, step: int) -> None:
    coarse = reuse(planned(HYBRID, release, enable_prefix_caching=True))
    fine = reuse(planned(HYBRID, release, enable_prefix_caching=True, prefix_match_unit=step))

    assert fine.step_tokens == step
    assert fine.smallest_prefix_tokens == coarse.smallest_prefix_tokens == coarse.step_tokens
    assert f"a multiple of {step} tokens" in fine.explanation


def test_steps_that_do_not_divide_a_block_end_the_start() -> None:
    candidate = planned(HYBRID, "0.33.0", enable_prefix_caching=True, prefix_match_unit=1000)

    assert candidate.kv_cache is None
    assert candidate.error is not None
    assert candidate.error.message.startswith(
        "Invalid prefix_match_unit=1000; all KV cache group block sizes"
    )


def test_what_stays_beside_the_workload_is_what_its_requests_do_not_hold() -> None:
    candidate = planned(DENSE, "0.28.0", Workload(8000, 192, 10))
    found, admission = reuse(candidate), candidate.admission

    assert admission is not None
    # Ten requests of 8,192 tokens in blocks of 16, from the blocks of an idle engine.
    assert found.kept_beside_workload == admission.free_blocks - 10 * 512


def test_windows_keep_no_more_than_a_window_of_a_prefix() -> None:
    """Gemma 3: blocks of 16 in every group, so a prefix of a block takes one of each group."""
    candidate = planned(WINDOWED, "0.28.0")

    assert candidate.start is not None
    assert reuse(candidate).blocks == len(candidate.start.layout.groups)
