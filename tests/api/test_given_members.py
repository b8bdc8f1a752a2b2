"""Members that are given are read as the whole schema reads them."""

from typing import Any

import pytest
from pydantic import ValidationError

from service.application.problems.given_members import read_given
from service.application.schemas.base import Input
from service.application.schemas.requests.engine_parameters import EngineParameters
from service.application.schemas.requests.plan_body import PlanBody
from tests.api.plan_bodies import GEMMA, LLAMA_CONFIG

PARAMETERS: list[dict[str, Any]] = [
    {},
    {"model": "Qwen/Qwen3-8B", "gpu": ["h100,l40s"]},
    {"max_model_len": "32k", "prompt_tokens": "128k", "free_memory_bytes": "42G"},
    {"search": False, "enforce_eager": True, "gpu_memory_utilization": 0.9, "compare": ["0.20.2,0.21.0"]},
    {"speculative_config": '{"method": "ngram"}', "objective": "tokens", "price": ["l4-24gb=0.7"]},
]
BODIES: list[dict[str, Any]] = [
    GEMMA,
    {"config": LLAMA_CONFIG, "gpus": ["h100:8", {"id": "l4-24gb", "count": 2}], "include": ["levers"]},
    {"model": "a/b", "workload": {"prompt_tokens": 100}, "prices": [{"gpu": "l4", "usd_per_gpu_hour": 1}]},
    {"model": "a/b", "serve": {"limit_mm_per_prompt": {"image": {"count": 2}}, "environment": {"A": "b"}}},
    {"model": "a/b", "serve": {"max_model_len": "32k", "speculative_config": {"method": "ngram"}}},
    {"model": "a/b", "engine": {"versions": ["0.20.2", "0.21.0"]}, "serve": {}},
]


@pytest.mark.parametrize(
    ("schema", "given"),
    [
        *((EngineParameters, each) for each in PARAMETERS),
        *((PlanBody, each) for each in BODIES),
    ],
)
def test_they_are_read_as_by_the_whole_schema(schema: type[Input], given: dict[str, Any]) -> None:
    read = read_given(schema, given)
    whole = schema.model_validate(given)
    assert read is not None
    assert read == whole
    assert repr(read) == repr(whole)
    assert read.model_fields_set == whole.model_fields_set


@pytest.mark.parametrize(
    ("schema", "given"),
    [
        (EngineParameters, {"tensor_parallel_size": 0}),
        (EngineParameters, {"max_model_len": "long"}),
        (EngineParameters, {"gpus": ["h100"], "gpu": ["l4"]}),
        (PlanBody, {"model": "a/b", "serve": {"max_modl_len": 3}}),
        (PlanBody, {"model": "a/b", "serve": {"tensor_parallel_size": "two"}}),
        (PlanBody, {"model": "a/b", "gpus": []}),
        (PlanBody, {"modle": "a/b"}),
        (PlanBody, {"model": "a/b", "workload": {"prompt_tokens": -1}}),
    ],
)
def test_what_the_schema_refuses_is_left_to_it(schema: type[Input], given: dict[str, Any]) -> None:
    assert read_given(schema, given) is None
    with pytest.raises(ValidationError):
        schema.model_validate(given)
