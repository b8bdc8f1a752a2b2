"""A plan's verdict is that of the command it recommends, which `check` repeats."""

from dataclasses import replace
from itertools import product

import pytest

from service.advisor.candidates.plan_types import Candidate, Plan
from service.advisor.candidates.verdict import Verdict
from service.advisor.plan import plan
from service.advisor.request.plan_request import EngineChoice, Model, Objective, PlanRequest
from service.engines.flags import ServeFlags
from service.gpus.catalog import find_gpu
from tests.accuracy.oracle import bundled_architecture

QUESTIONS = (
    ("meta-llama/Llama-3.1-8B", "l4-24gb", 65536),
    ("meta-llama/Llama-3.1-8B", "rtx-4090-24gb", 65536),
    ("Qwen/Qwen3-8B", "l4-24gb", 40960),
    ("Qwen/Qwen3-VL-8B-Instruct", "rtx-4090-24gb", 32768),
    ("openai/gpt-oss-120b", "h100-sxm-80gb", 131072),
    ("Qwen/Qwen3-30B-A3B-Instruct-2507", "h100-sxm-80gb", 262144),
    ("Qwen/Qwen3-32B", "h100-sxm-80gb", 40960),
    ("Qwen/Qwen3-32B", "a100-sxm-80gb", 32768),
    ("google/gemma-3-27b-it", "a100-sxm-80gb", 131072),
    ("Qwen/Qwen3-8B", "a10-24gb", 32768),
)
OBJECTIVES = (Objective.BALANCED, Objective.ACCURACY, Objective.TOKENS)


def planned(
    model: str,
    gpu: str,
    length: int,
    *,
    objective: Objective = Objective.BALANCED,
    flags: ServeFlags | None = None,
) -> Plan:
    return plan(
        PlanRequest(
            model=Model(model, None, "bundled", bundled_architecture(model)),
            gpus=(find_gpu(gpu),),
            counts=(1,),
            engine=EngineChoice.of("0.33.0"),
            serve=flags or ServeFlags(max_model_len=length),
            objective=objective,
            search=flags is None,
        )
    )


def surely_starts(candidate: Candidate) -> bool:
    return candidate.verdict is Verdict.STARTS and candidate.may_serve


@pytest.mark.parametrize(("question", "objective"), list(product(QUESTIONS, OBJECTIVES)))
def test_verdict_is_that_of_the_recommended_command(
    question: tuple[str, str, int], objective: Objective
) -> None:
    answer = planned(*question, objective=objective)
    (of_gpu,) = answer.plans
    best = of_gpu.recommended
    assert best is not None
    counted = {
        Verdict.STARTS: answer.counts.start,
        Verdict.UNCERTAIN: answer.counts.uncertain,
        Verdict.REFUSED: answer.counts.refused,
    }
    assert [verdict for verdict, number in counted.items() if number] == [best.verdict]
    assert of_gpu.verdict is best.verdict
    (checked,) = planned(*question, flags=replace(best.flags)).plans
    assert checked.verdict is best.verdict
    if best.is_expected_to_fail:
        assert not any(map(surely_starts, of_gpu.candidates))


@pytest.mark.parametrize("objective", [Objective.BALANCED, Objective.ACCURACY])
def test_weights_of_8_bits_come_before_a_cache_of_4(objective: Objective) -> None:
    """The engine's own quantization loses less than a 4-bit cache, and the check of it is sure."""
    (of_gpu,) = planned("Qwen/Qwen3-8B", "l4-24gb", 40960, objective=objective).plans
    assert of_gpu.recommended is not None
    assert of_gpu.recommended.flags.quantization == "fp8_per_tensor"
    assert of_gpu.recommended.quality.loss == 0


def test_uncertain_start_names_what_is_sure() -> None:
    """gpt-oss has no 16-bit weights to quantize, so what is sure is a shorter context or another cache."""
    uncertain = []
    for question in QUESTIONS:
        (of_gpu,) = planned(*question).plans
        if of_gpu.verdict is Verdict.UNCERTAIN:
            uncertain.append(question)
            assert "To be sure that it starts:" in of_gpu.reason
    assert uncertain
