"""An answer about the whole catalog leaves out what follows from other members, and has it on request."""

import asyncio
import json
from typing import Any

import pytest
from starlette.testclient import TestClient

from service.application.plans.plan_requests import answer_plan_request, plan_request, read_plan_body
from service.application.plans.plan_writing import written_plan
from service.application.schemas.parts import Parts
from service.application.services import Services

WORKLOAD = {"prompt_tokens": 8000, "output_tokens": 500, "concurrent_requests": 16}
LONGEST = (
    "moonshotai/Kimi-Linear-48B-A3B-Instruct",
    "nvidia/Llama-3_3-Nemotron-Super-49B-v1",
    "deepseek-ai/DeepSeek-V4-Flash",
    "meta-llama/Llama-4-Scout-17B-16E-Instruct",
)
"""Bundled models with the longest answers."""
LEFT_OUT = {
    ("tried",),
    ("recommended", "speed", "per_request"),
    ("recommended", "speed", "requests_per_second"),
    ("recommended", "speed", "ttft_floor_ms"),
    ("recommended", "speed", "floor_tpot_ms"),
}
TERMS = {
    ("recommended", "memory", name)
    for name in ("total", "requested", "activation", "non_torch", "cuda_graphs", "captured_graphs")
}
LAYOUT = {
    ("recommended", "kv_cache", name)
    for name in ("available_bytes", "num_blocks", "bytes_per_block", "estimated_max_model_len")
}


def _answers(services: Services, *included: tuple[str, ...], **body: Any) -> list[dict[str, Any]]:  # noqa: ANN401
    request = asyncio.run(plan_request(read_plan_body(body), services))
    plan = answer_plan_request(request, services)
    return [json.loads(written_plan(plan, Parts.of(each))) for each in included]


def _has(plan: dict[str, Any], path: tuple[str, ...]) -> bool:
    inside: Any = plan
    for name in path:
        inside = inside.get(name) if isinstance(inside, dict) else None
    return inside is not None


@pytest.mark.parametrize("model", LONGEST)
@pytest.mark.parametrize("workload", [None, WORKLOAD])
def test_the_whole_catalog_takes_less_than_100_kb(
    client: TestClient, model: str, workload: dict[str, int] | None
) -> None:
    reply = client.post("/v1/plan", json={"model": model, "workload": workload})
    assert reply.status_code == 200
    assert len(reply.json()["plans"]) > 60
    assert len(reply.content) < 100_000


def test_what_is_left_out_is_there_on_request_and_for_named_types(services: Services) -> None:
    body = {"model": "Qwen/Qwen3-8B", "workload": WORKLOAD}
    short, memory, cache, whole = _answers(services, (), ("memory",), ("cache",), ("candidates",), **body)
    named = _answers(services, (), gpus=[each["gpu"]["id"] for each in short["plans"]], **body)[0]
    for answer, members in (
        (short, set()),
        (memory, TERMS),
        (cache, LAYOUT),
        (whole, LEFT_OUT | TERMS | LAYOUT),
        (named, LEFT_OUT | TERMS | LAYOUT),
    ):
        plan = next(each for each in answer["plans"] if each["gpu"]["id"] == "h100-sxm-80gb")
        assert {path for path in LEFT_OUT | TERMS | LAYOUT if _has(plan, path)} == members


def test_what_is_left_out_follows_from_what_is_there(services: Services) -> None:
    (whole,) = _answers(services, ("candidates",), model="Qwen/Qwen3-8B", workload=WORKLOAD)
    for plan in whole["plans"]:
        best = plan["recommended"] or plan["nearest_refused"]
        if best["memory"] is not None:
            assert best["memory"]["total"]["bytes"] == plan["gpu"]["memory_bytes"]
        if best["kv_cache"] is not None:
            assert best["kv_cache"]["available_bytes"] == best["memory"]["available_kv"]["bytes"]
        if "speed" not in best:
            continue
        speed = best["speed"]
        assert speed["ttft_floor_ms"] == speed["ttft_ms"]["low"]
        for low, high in (("low", "high"), ("middle", "middle"), ("high", "low")):
            assert speed["per_request"][low] == pytest.approx(1000 / speed["tpot_ms"][high], rel=1e-3)
            ended = speed["output_tokens_per_second"][low] / WORKLOAD["output_tokens"]
            assert speed["requests_per_second"][low] == pytest.approx(ended, rel=1e-3)
