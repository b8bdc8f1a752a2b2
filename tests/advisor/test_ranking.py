"""Which candidate is chosen for what, by the meanings that objectives have."""

import pytest

from service.advisor.candidates.plan_types import Candidate, GpuPlan
from service.advisor.candidates.verdict import Verdict
from service.advisor.plan import plan
from service.advisor.ranking.service_level import Service, serves, service_of
from service.advisor.request.plan_request import (
    EngineChoice,
    Model,
    Objective,
    PlanRequest,
    Workload,
)
from service.application.text.table import render_plan
from service.engines.cache_quality import QUALITIES, UNKNOWN, quality_of
from service.engines.flags import ServeFlags
from service.engines.releases import RELEASES, rules_for
from service.gpus.catalog import find_gpu
from tests.accuracy.oracle import bundled_architecture
from tests.advisor.questions import GEMMA, LLAMA, ask_all

BIG = Workload(8000, 500, 40)


def chosen(objective: Objective, workload: Workload | None, flags: ServeFlags | None = None) -> GpuPlan:
    return ask_all(LLAMA, "0.32.0", flags, gpu="rtx-4090-24gb", workload=workload, objective=objective)


def best(plan: GpuPlan) -> Candidate:
    assert plan.recommended is not None
    return plan.recommended


def test_accuracy_takes_more_gpus_before_it_takes_a_lossy_cache() -> None:
    plan = chosen(Objective.ACCURACY, BIG)
    assert best(plan).quality.loss == 0
    assert serves(best(plan), BIG)
    fewer = [c for c in plan.candidates if c.tensor_parallel_size < best(plan).tensor_parallel_size]
    assert any(serves(c, BIG) and c.quality.loss for c in fewer)
    assert not any(serves(c, BIG) and not c.quality.loss and c.verdict is Verdict.STARTS for c in fewer)


def test_balanced_takes_the_fewest_gpus_that_serve_and_the_least_lossy_cache_there() -> None:
    plan = chosen(Objective.BALANCED, BIG)
    assert serves(best(plan), BIG)
    able = [c for c in plan.candidates if c.verdict is best(plan).verdict and serves(c, BIG)]
    gpus = min(c.tensor_parallel_size for c in able)
    assert best(plan).tensor_parallel_size == gpus
    assert best(plan).quality.loss == min(c.quality.loss for c in able if c.tensor_parallel_size == gpus)
    assert plan.reason.startswith(f"{gpus} GPUs serve the workload: ")


def test_tokens_takes_the_most_whatever_is_lost_and_tries_other_blocks() -> None:
    plan = chosen(Objective.TOKENS, None)
    starting = [c for c in plan.candidates if c.verdict is Verdict.STARTS]
    most = max(c.kv_cache.tokens for c in starting if c.kv_cache is not None)
    cache = best(plan).kv_cache
    assert cache is not None
    assert cache.tokens == most
    assert {c.flags.block_size for c in plan.candidates} > {None}


def test_where_nothing_serves_the_workload_that_is_said() -> None:
    plan = chosen(Objective.BALANCED, Workload(8000, 0, 100_000), ServeFlags(tensor_parallel_size=1))
    assert "none serves the whole workload" in plan.reason


def test_what_a_denser_cache_would_hold_is_given_beside_a_lossless_choice() -> None:
    plan = chosen(Objective.BALANCED, None, ServeFlags(tensor_parallel_size=2))
    assert best(plan).quality.loss == 0
    assert "times as many" in plan.reason


def test_several_nodes_are_tried_where_one_is_not_enough() -> None:
    plan = ask_all("deepseek-ai/DeepSeek-V3", "0.32.0", gpu="a100-sxm-80gb")
    nodes = {c.pipeline_parallel_size for c in plan.candidates}
    assert nodes == {1, 2, 4}
    assert {c.tensor_parallel_size for c in plan.candidates if c.pipeline_parallel_size > 1} == {8}
    assert best(plan).pipeline_parallel_size == 2
    assert {c.pipeline_parallel_size for c in ask_all(GEMMA, gpu="a100-sxm-80gb").candidates} == {1}


def test_every_quality_has_a_source_and_plain_types_lose_nothing() -> None:
    assert all(quality.effect and quality.source for quality in QUALITIES.values())
    assert [quality_of(dtype).loss for dtype in ("auto", "bfloat16", "float16")] == [0, 0, 0]
    assert quality_of("fp8").loss < quality_of("fp8_e5m2").loss < quality_of("turboquant_3bit_nc").loss
    assert quality_of("of tomorrow") is UNKNOWN
    assert UNKNOWN.loss > max(quality.loss for quality in QUALITIES.values())


@pytest.mark.parametrize("dtype", sorted(QUALITIES))
def test_every_quality_is_of_a_dtype_that_some_release_has(dtype: str) -> None:
    assert any(dtype in rules_for(release).dtypes.accepted for release in RELEASES)


LONG_ANSWERS = Workload(8_000, 30_000, 30)
"""Prompts of 8,000 tokens fit 30 times where their answers of 30,000 more do not."""


@pytest.mark.parametrize("objective", list(Objective))
def test_what_serves_without_preemption_ranks_before_what_only_admits_all(objective: Objective) -> None:
    """Qwen3 32B stores 64 layers x 2 x 8 heads x 128 x 2 bytes = 256 KiB a token, 128 KiB on each of 2 ranks.

    38,000 tokens take 2,375 blocks of 16 tokens: 30 requests need 71,250 blocks of 2 MiB, 139 GiB a rank.
    """
    found = ask_all("Qwen/Qwen3-32B", "0.28.0", workload=LONG_ANSWERS, objective=objective)
    two = next(
        candidate
        for candidate in found.candidates
        if candidate.kv_cache_dtype == "auto" and candidate.tensor_parallel_size == 2
    )

    assert two.admission is not None
    assert two.kv_cache is not None
    assert two.admission.peak_decode_blocks == 2_375
    assert two.admission.completed_without_preemption == (two.kv_cache.num_blocks - 1) // 2_375
    assert two.admission.completed_without_preemption < 30 <= two.admission.admitted_at_once
    assert service_of(two, LONG_ANSWERS) is Service.INTERRUPTED
    assert not serves(two, LONG_ANSWERS)
    assert serves(best(found), LONG_ANSWERS)
    starting = [each for each in found.candidates if each.verdict is Verdict.STARTS]
    usual = [each for each in starting if each.quality.bits == 16 or each.kv_cache_dtype == "fp8"]
    services = [service_of(each, LONG_ANSWERS) for each in usual]
    assert services == sorted(services)


def test_both_numbers_are_given_where_requests_are_preempted() -> None:
    flags = ServeFlags(tensor_parallel_size=2, kv_cache_dtype="auto")
    model = Model("Qwen/Qwen3-32B", None, "bundled", bundled_architecture("Qwen/Qwen3-32B"))
    request = PlanRequest(model, (find_gpu("h100-sxm-80gb"),), EngineChoice.of("0.28.0"), flags, LONG_ANSWERS)
    answer = plan(request)
    admission = best(answer.plans[0]).admission

    assert admission is not None
    kept = admission.completed_without_preemption
    assert f"Only {kept} of these 30 finish without preemption" in admission.explanation
    assert f"; only {kept} can finish without being preempted (you want 30)." in answer.plans[0].reason
    assert f"; only {kept} can finish without being preempted (you want 30)." in answer.verdict
    assert (answer.counts.serve, answer.counts.preempt) == (0, 1)
    text = " ".join(render_plan(answer).split())
    assert f"Only {kept} of these 30 finish without preemption" in text


def test_a_cache_for_all_requests_has_no_preemption_in_its_explanation() -> None:
    found = chosen(Objective.BALANCED, BIG)

    assert best(found).admission is not None
    assert "preemption" not in best(found).admission.explanation  # type: ignore[union-attr]
    assert "serve the workload" in found.reason


@pytest.mark.parametrize("version", ["0.15.0", "0.18.0"])
def test_no_context_is_recommended_of_which_not_one_request_fits(version: str) -> None:
    """The check of these releases counts one group, so Gemma 3 starts with 8,192 of 9,350 blocks wanted.

    1,360 blocks of 1,310,720 bytes hold 6 groups of 193 blocks and one of 16 tokens a block: 202 blocks.
    """
    given = ServeFlags(tensor_parallel_size=1, kv_cache_memory_bytes=1360 * 1_310_720)
    gemma = "google/gemma-3-27b-it"
    plan = ask_all(gemma, version, given, gpu="rtx-4090-24gb")
    whole = [c for c in plan.candidates if c.flags.max_model_len is None and c.kv_cache is not None]
    assert min(c.kv_cache.max_concurrency for c in whole if c.kv_cache) < 1
    for candidate in plan.candidates:
        if candidate.flags.max_model_len is not None and candidate.kv_cache is not None:
            assert candidate.kv_cache.max_concurrency >= 1
    cache = best(plan).kv_cache
    assert cache is not None
    assert cache.max_concurrency >= 1
    lengths = {
        candidate.kv_cache_dtype: candidate.kv_cache.max_model_len
        for candidate in reversed(plan.candidates)
        if candidate.flags.max_model_len is not None and candidate.kv_cache is not None
    }
    assert lengths["auto"] == (1360 - 6 * 193) * 16 // 1024 * 1024
    # A block of an fp8 cache takes half, and 16,384 tokens are what one GPU should keep.
    assert lengths["fp8"] == (2720 - 6 * 193) * 16 // 1024 * 1024
    assert cache.max_model_len == lengths["fp8"]


def test_where_the_context_is_given_more_gpus_that_hold_a_request_come_first() -> None:
    given = ServeFlags(max_model_len=131072, kv_cache_memory_bytes=1360 * 1_310_720)
    plan = ask_all("google/gemma-3-27b-it", "0.15.0", given, gpu="h100-sxm-80gb")
    cache = best(plan).kv_cache
    assert cache is not None
    assert cache.max_concurrency >= 1
    assert best(plan).gpus > 1
