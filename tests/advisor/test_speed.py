"""The speed of candidates: what runs at once, limits, cost, and when there is no speed."""

from dataclasses import replace

import pytest

from service.advisor.candidates.plan_types import Candidate
from service.advisor.dry_runs.steps_of_advice import uses_fallback
from service.advisor.plan import plan
from service.advisor.ranking.service_level import service_of
from service.advisor.ranking.speed_limits import Meets, meets
from service.advisor.request.plan_request import Objective, PlanRequest, Workload
from service.engines.flags import ServeFlags
from service.engines.speculative_config import SpeculativeConfig
from service.gpus.catalog import find_gpu
from service.gpus.own_gpu import own_gpu
from service.speed.prices import Price, PriceKind, PriceList
from tests.accuracy.startups_models import find_model

CHAT = Workload(1024, 256, 16)
H200 = find_gpu("h200-sxm-141gb")


def asked(workload: Workload | None = CHAT, model: str = "Qwen/Qwen3-8B", **flags: object) -> PlanRequest:
    return PlanRequest(
        find_model(model).model,
        (H200,),
        serve=ServeFlags(**flags),  # type: ignore[arg-type]
        workload=workload,
    )


def best(request: PlanRequest) -> Candidate:
    found = plan(request).plans[0].recommended
    assert found is not None
    return found


def test_without_a_workload_there_is_no_speed() -> None:
    assert best(asked(None)).speed is None
    assert best(asked(Workload(1024))).speed is None


def test_with_draft_tokens_there_is_no_speed() -> None:
    drafts = SpeculativeConfig(method="ngram", num_speculative_tokens=2)
    assert best(asked(speculative_config=drafts)).speed is None


def test_without_peaks_there_is_no_speed() -> None:
    own = own_gpu(name="my card", memory_bytes=80 << 30, compute_capability="9.0")
    assert best(replace(asked(), gpus=(own,))).speed is None


def test_max_num_seqs_limits_what_runs_at_once() -> None:
    few = best(asked(Workload(1024, 256, 64), max_num_seqs=8, tensor_parallel_size=1))
    assert few.speed is not None
    assert few.speed.running_requests == 8


def test_the_cache_limits_what_runs_at_once() -> None:
    request = asked(
        Workload(8192, 1024, 512), max_model_len=16384, tensor_parallel_size=1, gpu_memory_utilization=0.2
    )
    found = best(request)
    assert found.speed is not None
    assert found.admission is not None
    assert found.speed.running_requests <= found.admission.admitted_at_once < 512


def test_replicas_serve_together() -> None:
    one, eight = (
        best(asked(Workload(1024, 256, 256))),
        best(replace(asked(Workload(1024, 256, 256)), counts=(8,))),
    )
    assert one.speed is not None
    assert eight.speed is not None
    assert eight.all_gpus > one.all_gpus
    assert eight.speed.output_tokens_per_second.middle > one.speed.output_tokens_per_second.middle


def test_a_rate_runs_as_many_requests_as_overlap() -> None:
    found = best(asked(replace(CHAT, request_rate=4.0), tensor_parallel_size=1))
    assert found.speed is not None
    # Little's law: requests at once are the rate times the life of a request.
    life = (found.speed.ttft_ms.middle + 256 * found.speed.tpot_ms.middle) / 1e3
    assert found.speed.running_requests == pytest.approx(4.0 * life, abs=1.1)
    assert found.speed.requests_per_second.middle == pytest.approx(4.0, rel=0.01)


def test_limits_of_a_workload() -> None:
    found = best(asked())
    assert found.speed is not None
    tpot = found.speed.tpot_ms
    assert meets(found, CHAT) is Meets.YES
    assert meets(found, replace(CHAT, max_tpot_ms=tpot.high)) is Meets.YES
    assert meets(found, replace(CHAT, max_tpot_ms=tpot.middle)) is Meets.LIKELY
    assert meets(found, replace(CHAT, max_tpot_ms=tpot.low)) is Meets.UNLIKELY
    assert meets(found, replace(CHAT, max_tpot_ms=tpot.low / 2)) is Meets.NO
    assert meets(replace(found, speed=None), replace(CHAT, max_tpot_ms=1.0)) is Meets.UNKNOWN
    assert meets(found, replace(CHAT, max_ttft_ms=found.speed.ttft_floor_ms / 2)) is Meets.NO
    fast = replace(CHAT, request_rate=1e5)
    assert meets(best(asked(fast)), fast) is Meets.NO


def test_a_price_gives_a_cost() -> None:
    price = Price(H200.id, 3.6, PriceKind.ON_DEMAND, "given", "2026-11-01", "given")
    found = best(replace(asked(), prices=PriceList(((price,),))))
    assert found.speed is not None
    assert found.cost is not None
    # 3.60 dollars an hour are 0.001 a second.
    per_token = 0.001 * found.all_gpus / found.speed.output_tokens_per_second.middle
    assert found.cost.usd_per_million_output_tokens.middle == pytest.approx(per_token * 1e6)
    assert found.cost.price == price


def test_without_a_price_there_is_no_cost() -> None:
    found = best(replace(asked(), prices=PriceList((), PriceKind.SPOT)))
    assert found.speed is not None
    assert found.cost is None


def test_cost_takes_the_fewest_gpu_seconds_that_meet_the_limits() -> None:
    request = replace(asked(Workload(1024, 256, 64), "meta-llama/Llama-3.1-70B"), objective=Objective.COST)
    candidates = [each for each in plan(request).plans[0].candidates if each.speed and each.may_serve]
    first = candidates[0]
    assert first.speed is not None

    def hours(candidate: Candidate) -> float:
        assert candidate.speed is not None
        return candidate.all_gpus / candidate.speed.output_tokens_per_second.middle

    assert hours(first) <= 1.2 * min(map(hours, candidates))
    faster = replace(request, workload=Workload(1024, 256, 64, max_tpot_ms=first.speed.tpot_ms.middle * 0.7))
    limited = best(faster)
    assert limited.gpus > first.gpus
    assert meets(limited, faster.workload) <= Meets.LIKELY


def test_equal_costs_are_ordered_by_loss() -> None:
    found = best(replace(asked(Workload(1024, 1024, 64), "openai/gpt-oss-120b"), objective=Objective.COST))
    # An fp8 cache saves 3 % of the time of a step, which no plan can tell.
    assert found.quality.loss == 0


CARDS = ("a100-sxm-80gb", "l40s-48gb", "rtx-3090-24gb", "rtx-4090-24gb", "rtx-5090-32gb")
GPUS = (*CARDS, "h100-sxm-80gb", "b200-180gb")


@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize(
    "model", ["Qwen/Qwen3-8B", "openai/gpt-oss-120b", "nvidia/Llama-3.1-70B-Instruct-FP8"]
)
@pytest.mark.parametrize("objective", [Objective.BALANCED, Objective.COST])
def test_a_slower_backend_is_not_put_above_a_native_one(gpu: str, model: str, objective: Objective) -> None:
    workload = Workload(1024, 512, 32)
    found = plan(replace(asked(workload, model), gpus=(find_gpu(gpu),), objective=objective)).plans[0]
    best = found.recommended
    if best is None or not uses_fallback(best):
        return
    level = service_of(best, workload)
    for other in found.candidates:
        same = other.gpus == best.gpus and other.quality.loss <= best.quality.loss
        alike = other.may_serve and service_of(other, workload) <= level and other.verdict is best.verdict
        assert not (same and alike and not uses_fallback(other)), other.command


def test_limits_come_before_the_fewest_gpus() -> None:
    slow = best(asked(Workload(1024, 512, 32), "meta-llama/Llama-3.1-70B"))
    assert slow.speed is not None
    limit = slow.speed.tpot_ms.middle * 0.7
    request = asked(Workload(1024, 512, 32, max_tpot_ms=limit), "meta-llama/Llama-3.1-70B")
    fast = best(request)
    assert fast.speed is not None
    assert fast.speed.tpot_ms.middle <= limit
    assert fast.gpus > slow.gpus
    assert "ms a token" in plan(request).plans[0].reason
