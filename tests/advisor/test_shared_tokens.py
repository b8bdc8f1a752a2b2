"""Decode context parallelism as advice: where ranks would store the same keys and values."""

from dataclasses import replace

import pytest

from service.advisor.candidates.verdict import Verdict
from service.advisor.dry_runs.plan_cache import CachedSteps
from service.advisor.fixes.context_parallel import shared_sizes
from service.advisor.fixes.fixes import with_fixes
from service.advisor.request.plan_request import Workload
from service.engines.flags import ServeFlags
from service.engines.releases import find_release, rules_for
from service.gpus.catalog import find_gpu
from tests.accuracy.oracle import bundled_architecture
from tests.advisor.questions import ask_all
from tests.advisor.test_fixes import requested

MOE = "Qwen/Qwen3-235B-A22B"
"""64 query heads and 4 key/value heads."""
EIGHT = ServeFlags(tensor_parallel_size=8, kv_cache_dtype="auto")


@pytest.mark.parametrize(
    ("model", "ranks", "release", "sizes"),
    [
        # vLLM 0.11.1 to 0.33.0, ModelConfig.verify_with_parallel_config: size <= ranks // heads.
        (MOE, 4, "0.33.0", []),
        (MOE, 8, "0.33.0", [2]),
        (MOE, 16, "0.33.0", [2, 4]),
        (MOE, 8, "0.11.1", [2]),
        # vLLM 0.11.0 checks no heads: what becomes of such a start is not known.
        (MOE, 8, "0.11.0", []),
        # 8 key/value heads on 8 ranks: none is repeated.
        ("meta-llama/Llama-3.1-70B-Instruct", 8, "0.33.0", []),
        # Every rank stores the whole latent vectors of MLA.
        ("deepseek-ai/DeepSeek-V3", 8, "0.33.0", [2, 4, 8]),
        ("deepseek-ai/DeepSeek-V3", 1, "0.33.0", []),
    ],
)
def test_ranks_share_what_they_would_all_store(
    model: str, ranks: int, release: str, sizes: list[int]
) -> None:
    rules = rules_for(find_release(release)).parallelism
    flags = ServeFlags(tensor_parallel_size=ranks)
    assert list(shared_sizes(bundled_architecture(model), flags, rules)) == sizes


def test_a_start_that_lacks_room_for_the_workload_says_that_ranks_could_share_it() -> None:
    """A request of 32,000 tokens takes 2,000 blocks of every rank, or 1,000 where two share its tokens."""
    workload = Workload(30_000, 2000, 16)
    found = ask_all(MOE, "0.33.0", EIGHT, gpu="a100-sxm-80gb", workload=workload, with_levers=True)
    assert found.recommended is not None
    assert found.recommended.admission is not None
    free = found.recommended.admission.free_blocks
    (lever,) = (each for each in found.levers if each.flag == "decode_context_parallel_size")

    assert "stored on 2 of the 8 ranks" in found.reason
    assert "--decode-context-parallel-size 2" in found.reason
    assert f"{free // 1000:,} requests run together without preemption, not {free // 2000:,}" in found.reason
    assert lever.value == 2
    assert lever.costs == ("speed",)
    assert lever.completed_without_preemption == free // 1000 - free // 2000
    fewer = replace(workload, concurrent_requests=8)
    enough = ask_all(MOE, "0.33.0", EIGHT, gpu="a100-sxm-80gb", workload=fewer)
    assert "--decode-context-parallel-size" not in enough.reason


def test_ranks_that_share_tokens_are_a_fix_of_a_cache_that_is_too_small() -> None:
    """A request of 40,960 tokens takes 2,560 blocks of 770,048 B: 1.97 GB; half where two ranks share it."""
    request = requested(MOE, "a100-sxm-80gb", "0.33.0", replace(EIGHT, kv_cache_memory_bytes=1_500_000_000))
    steps = CachedSteps(request.model, request.engine.rules)
    gpu = find_gpu("a100-sxm-80gb")
    found = ask_all(MOE, "0.33.0", request.serve, gpu=gpu.id)
    (refused,) = found.candidates
    assert refused.verdict is Verdict.REFUSED
    fixed = with_fixes(request, refused, gpu, steps).error
    assert fixed is not None
    (fix,) = (each for each in fixed.fixes if "decode-context" in each.change)

    assert fix.change == "--decode-context-parallel-size 2"
    assert fix.tokens == 1_500_000_000 // 770_048 * 16 * 2
