"""Mixtures of experts whose ranks see the tokens of several data parallel replicas."""

from dataclasses import replace

import pytest

from service.advisor.candidates.plan_types import Candidate
from service.advisor.candidates.verdict import Verdict
from service.advisor.dry_runs.dry_run import dry_run
from service.advisor.request.plan_request import Model, PlanRequest
from service.engines.flags import ServeFlags
from service.engines.releases import find_release, rules_for
from service.gpus.catalog import find_gpu
from service.memory.budget_types import Basis
from tests.accuracy.oracle import bundled_architecture

SPARSE = "deepseek-ai/DeepSeek-V3.2"
GIB = 2**30


def candidate(model_id: str, gpu: str, release: str, flags: ServeFlags) -> Candidate:
    model = Model(model_id, None, "bundled", bundled_architecture(model_id))
    request = PlanRequest(model, (find_gpu(gpu),))
    return dry_run(request, flags, rules_for(find_release(release)), request.gpus[0])


@pytest.mark.parametrize(
    ("length", "verdict"),
    [
        # gpustack's lab, DeepSeek V3.2 on 8 x H200 with vLLM 0.13.0: out of memory at its full length,
        (163_840, Verdict.UNCERTAIN),
        # and measured at this one.
        (81_920, Verdict.STARTS),
    ],
)
def test_a_published_start_and_failure(length: int, verdict: Verdict) -> None:
    flags = ServeFlags(data_parallel_size=8, enable_expert_parallel=True, max_model_len=length)

    found = candidate(SPARSE, "h200-sxm-141gb", "0.13.0", flags)

    assert found.verdict is verdict
    assert found.memory is not None
    assert found.memory.activation.basis is Basis.ASSUMED
    assert any("8 data parallel ranks" in warning for warning in found.warnings)


def test_gathered_tokens_are_copied_once_before_and_once_after_the_experts() -> None:
    """By hand: 2 copies x 8 ranks x 8,192 tokens x 7,168 values of 2 bytes = 1.75 GiB; at most two rows of
    7,168 for each of 8 experts of a token beside, less what one rank alone is planned with.
    """
    flags = ServeFlags(
        data_parallel_size=8, enable_expert_parallel=True, max_num_batched_tokens=8192, max_model_len=8192
    )

    several = candidate(SPARSE, "h200-sxm-141gb", "0.19.0", flags).memory
    # One rank that holds as much of the attention; its weights do not fit, which a pinned cache leaves aside.
    one = candidate(
        SPARSE,
        "h200-sxm-141gb",
        "0.19.0",
        replace(flags, data_parallel_size=1, kv_cache_memory_bytes=8 * GIB),
    ).memory

    assert several is not None
    assert one is not None
    assert several.activation.bytes - one.activation.bytes == 2 * 8 * 8192 * 7168 * 2
    own = 8192 * 8 * 2 * 7168
    most = (2 * 8 * 8192 * 7168 + 8 * 8192 * 8 * 2 * 7168 - own) * 2
    assert several.activation.high - several.activation.bytes == pytest.approx(
        most - 2 * 8 * 8192 * 7168 * 2, rel=0.01
    )
    assert several.activation.low <= one.activation.bytes


def test_replicas_of_a_dense_model_share_nothing() -> None:
    one = candidate("Qwen/Qwen3-8B", "h100-sxm-80gb", "0.28.0", ServeFlags(max_model_len=8192))
    several = candidate(
        "Qwen/Qwen3-8B", "h100-sxm-80gb", "0.28.0", ServeFlags(max_model_len=8192, data_parallel_size=4)
    )

    assert several.memory == one.memory
    assert several.warnings == one.warnings


def test_experts_are_split_over_the_ranks_of_all_replicas_or_dealt_to_them() -> None:
    """vLLM 0.28.0, FusedMoEParallelConfig.make: experts over 4 ranks take as much either way."""
    flags = ServeFlags(max_model_len=8192, data_parallel_size=4)
    split = candidate("Qwen/Qwen3-30B-A3B-Instruct-2507", "h100-sxm-80gb", "0.28.0", flags).memory
    sharded = candidate(
        "Qwen/Qwen3-30B-A3B-Instruct-2507",
        "h100-sxm-80gb",
        "0.28.0",
        replace(flags, enable_expert_parallel=True),
    ).memory

    assert split is not None
    assert sharded is not None
    assert split.weights.bytes == sharded.weights.bytes
