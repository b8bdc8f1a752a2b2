"""Which candidate is chosen for what, by the meanings that objectives have."""

import pytest

from service.advisor.plan_request import Objective, Workload
from service.advisor.plan_types import Candidate, GpuPlan, Verdict
from service.advisor.ranking import serves
from service.engines.cache_quality import QUALITIES, UNKNOWN, quality_of
from service.engines.flags import ServeFlags
from service.engines.releases import RELEASES, rules_for
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
    assert plan.reason.startswith("On the fewest GPUs, the least lossy that serves the workload")


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


def test_what_a_denser_cache_would_hold_is_told_beside_a_lossless_choice() -> None:
    plan = chosen(Objective.BALANCED, None, ServeFlags(tensor_parallel_size=2))
    assert best(plan).quality.loss == 0
    assert "times as much." in plan.reason


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
