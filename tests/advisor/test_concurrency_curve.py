"""The curve: plans of workloads with each point's length, made apart, complete as many requests."""

import pytest

from service.advisor.candidates.plan_types import Candidate
from service.advisor.dry_runs.concurrency_curve import concurrency_curve, regular_lengths
from service.advisor.request.plan_request import Workload
from service.engines.flags import ServeFlags
from tests.advisor.questions import GEMMA, LLAMA, QWEN, ask

FLAGS = ServeFlags(tensor_parallel_size=1, kv_cache_dtype="auto")


@pytest.mark.parametrize("model", [GEMMA, LLAMA, QWEN, "openai/gpt-oss-20b", "Qwen/Qwen3.6-35B-A3B"])
@pytest.mark.parametrize("version", ["0.19.0", "0.32.0"])
def test_each_point_is_what_a_workload_of_its_length_gets(model: str, version: str) -> None:
    def planned(workload: Workload) -> Candidate:
        return ask(model, version, FLAGS, gpu="b300-288gb", workload=workload)

    candidate = planned(Workload(1000, 100, 4))
    curve = concurrency_curve(candidate, (1100,))
    assert candidate.admission is not None
    asked = next(point for point in curve if point.tokens == 1100)
    assert asked.requests == candidate.admission.completed_without_preemption
    for point in curve[:: max(1, len(curve) // 8)]:
        admission = planned(Workload(point.tokens - 100, 100, 4)).admission
        assert admission is not None
        assert point.requests == admission.completed_without_preemption
        assert point.low <= point.requests <= point.high
    assert any(point.low < point.high for point in curve)
    assert curve[0].requests > curve[-1].requests


def test_without_a_cache_there_is_no_curve() -> None:
    refused = ask(LLAMA, "0.32.0", FLAGS, gpu="rtx-3070-8gb")
    assert refused.kv_cache is None
    assert concurrency_curve(refused) == ()


def test_lengths_end_with_the_longest() -> None:
    lengths = regular_lengths(40_960)
    assert lengths[0] == 128
    assert lengths[-1] == 40_960
    assert list(lengths) == sorted(set(lengths))
    assert regular_lengths(100) == (100,)
