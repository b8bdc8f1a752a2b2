"""Requests that are shared out among engines with caches of their own: data parallel ranks and replicas."""

from dataclasses import replace

import pytest

from service.advisor.candidates.admission import Waiting
from service.advisor.candidates.plan_types import Candidate
from service.advisor.plan import plan
from service.advisor.request.plan_request import Workload
from service.application.text.table import render_plan
from service.engines.flags import ServeFlags
from tests.advisor.test_fixes import requested

RANKS = ServeFlags(
    tensor_parallel_size=1, data_parallel_size=8, enable_expert_parallel=True, max_model_len=32_768,
    kv_cache_dtype="auto",
)  # fmt: skip


def served(requests: int) -> tuple[Candidate, str]:
    """Plan DeepSeek-V3 on eight data parallel ranks; a request of 21,000 tokens takes 1,313 blocks of one."""
    request = requested("deepseek-ai/DeepSeek-V3", "h200-sxm-141gb", "0.33.0", RANKS)
    found = plan(replace(request, workload=Workload(20_000, 1000, requests)))
    best = found.plans[0].recommended
    assert best is not None
    assert best.admission is not None
    return best, " ".join(render_plan(found).split())


def test_verdict_and_workload_say_the_same_under_data_parallelism() -> None:
    best, text = served(16)
    assert best.admission is not None
    assert best.admission.waits_for is Waiting.NOTHING
    assert "all 16 requests run at once" in text
    assert "Each of the 8 engines" in text
    assert "Shared out evenly, each gets 2 of the 16 requests" in text
    assert "All 2 requests run at once on each" in text
    assert "of 16 requests run at once" not in text


@pytest.mark.parametrize("more", [1, 8])
def test_an_engine_that_gets_more_than_it_holds_makes_the_next_request_wait(more: int) -> None:
    """One more than all ranks hold together is one more than one of them holds."""
    best, _ = served(8)
    assert best.admission is not None
    held = best.admission.admitted_at_once
    full, _ = served(8 * held)
    crowded, text = served(8 * held + more)

    assert full.admission is not None
    assert full.admission.waits_for is Waiting.NOTHING
    assert crowded.admission is not None
    assert crowded.admission.waits_for is Waiting.BLOCKS
    assert f"{8 * held:,} of the {8 * held + more:,} requests can start together" in text
    assert f"{held:,} of {held + 1:,} requests run at once on each" in text


def test_replicas_share_the_workload_too() -> None:
    request = requested("Qwen/Qwen3-8B", "l4-24gb", "0.33.0", ServeFlags(kv_cache_dtype="auto"))
    request = replace(request, workload=Workload(8000, 500, 16), counts=(4,))
    found = plan(request)
    best = found.plans[0].recommended
    assert best is not None
    assert best.replicas == 2
    assert best.admission is not None
    assert "gets 8 of the 16 requests" in best.admission.explanation
