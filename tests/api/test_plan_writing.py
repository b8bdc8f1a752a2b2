"""What is written straight from the core's values is what the models of the contract write, byte for byte."""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from service.advisor.candidates.plan_types import Plan
from service.advisor.request.checkpoint_layouts import QuantizedSibling
from service.advisor.request.plan_request import PlanRequest
from service.application.errors import InputFault
from service.application.plans import plan_writing
from service.application.plans.plan_requests import answer_plan_request, plan_request, read_plan_body
from service.application.plans.plan_writing import written_plan
from service.application.schemas.answers.plan import PlanAnswer
from service.application.schemas.parts import Parts
from service.application.services import Services
from service.engines.releases import RELEASES
from service.gpus.gpu_type import GpuType
from service.hub.errors import HubError
from service.memory.budget_types import Evidence, Level

MODELS = (
    "Qwen/Qwen3-8B",
    "google/gemma-4-31B-it",
    "deepseek-ai/DeepSeek-V3.1",
    "openai/gpt-oss-20b",
    "Qwen/Qwen3.6-35B-A3B",
    "meta-llama/Llama-3.1-8B",
)
GPUS = ("rtx-3090-24gb", "h100-sxm-80gb", "l40s-48gb", "b200-180gb")
PARTS = ("memory", "cache", "candidates", "details", "levers", "curve")
WORKLOAD = {"prompt_tokens": 3000, "output_tokens": 200, "concurrent_requests": 40}

QUESTIONS = st.fixed_dictionaries(
    {
        "model": st.sampled_from(MODELS),
        "gpus": st.lists(st.sampled_from(GPUS), min_size=1, max_size=2, unique=True),
        "engine": st.fixed_dictionaries({"version": st.sampled_from([str(each) for each in RELEASES])}),
        "include": st.lists(st.sampled_from(PARTS), max_size=2, unique=True),
        "search": st.booleans(),
        "serve": st.fixed_dictionaries(
            {"tensor_parallel_size": st.sampled_from([1, 2, 8])},
            optional={
                "max_model_len": st.integers(1, 1 << 18),
                "kv_cache_dtype": st.sampled_from(["auto", "fp8"]),
                "data_parallel_size": st.sampled_from([1, 2]),
            },
        ),
    },
    optional={"workload": st.just(WORKLOAD), "objective": st.sampled_from(["tokens", "accuracy"])},
)


def _planned(body: dict[str, Any], services: Services) -> Plan:
    question = asyncio.run(plan_request(read_plan_body(body), services))
    return answer_plan_request(question, services)


def _held_against_the_contract(plan: Plan, parts: Parts) -> None:
    written = written_plan(plan, parts)
    contract = PlanAnswer.model_validate_json(written, extra="forbid").model_dump_json().encode()
    assert json.loads(written) == json.loads(contract)
    assert written == contract


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], database=None
)
@given(body=QUESTIONS)
def test_any_question(services: Services, body: dict[str, Any]) -> None:
    try:
        plan = _planned(body, services)
    except (InputFault, HubError):
        return
    _held_against_the_contract(plan, Parts.of(body["include"]))


@pytest.mark.parametrize("include", [[], ["details"], ["details", "levers"], ["memory"], ["cache"]])
def test_each_part(services: Services, include: list[str]) -> None:
    body = {"model": "Qwen/Qwen3-8B", "gpus": [*GPUS], "include": include, "workload": WORKLOAD}
    _held_against_the_contract(_planned(body, services), Parts.of(include))


def test_a_command_and_releases_that_are_compared(services: Services) -> None:
    command = "vllm serve Qwen/Qwen3-8B --max-model-len 8192 --api-key secret --enable-lora"
    plan = _planned({"command": command, "gpus": ["h100-sxm-80gb"]}, services)
    _held_against_the_contract(plan, Parts())
    compared = {
        "model": "google/gemma-4-31B-it",
        "gpus": ["h100-sxm-80gb"],
        "engine": {"versions": [str(RELEASES[0]), str(RELEASES[-1])]},
    }
    _held_against_the_contract(_planned(compared, services), Parts.of(["details"]))


def test_no_model_is_built_for_an_answer(services: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = _planned({"model": "Qwen/Qwen3-8B", "gpus": [*GPUS], "include": ["details", "levers"]}, services)
    monkeypatch.setattr(plan_writing, "plan_answer", None)
    for parts in (Parts(), Parts.of(["details", "levers"])):
        assert json.loads(written_plan(plan, parts))["model"]["architecture"]["class_name"]


def test_measured_terms_and_integers_of_many_bits(services: Services) -> None:
    body = {"model": "Qwen/Qwen3-8B", "gpus": ["h100-sxm-80gb"], "serve": {"tensor_parallel_size": 1}}
    plan = _planned(body, services)
    gpu = plan.plans[0]
    assert gpu.recommended is not None
    assert gpu.recommended.memory is not None
    evidence = Evidence(next(iter(Level)), 3, "2026-05-01", 12, logs=1)
    memory = gpu.recommended.memory
    measured = replace(memory, non_torch=replace(memory.non_torch, evidence=evidence))
    for changed in (replace(gpu.recommended, memory=measured), replace(gpu.recommended, block_size=1 << 70)):
        other = replace(plan, plans=(replace(gpu, recommended=changed),))
        _held_against_the_contract(other, Parts.of(["memory"]))
        assert other != plan


def test_json_weighs_no_checkpoint_that_only_text_names(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def none_found(request: PlanRequest, gpu: GpuType) -> Iterator[QuantizedSibling]:
        asked.append(f"{request.model.id} on {gpu.id}")
        return iter(())

    monkeypatch.setattr("service.advisor.plan.runnable_siblings", none_found)
    planned = _planned({"model": "Qwen/Qwen3-8B", "gpus": ["h100"]}, services)
    written_plan(planned, Parts())
    assert not asked
    assert planned.checkpoints == ()
    assert asked == ["Qwen/Qwen3-8B on h100-sxm-80gb"]
