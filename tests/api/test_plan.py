"""The contract of a plan, through the real advisor."""

import asyncio
import json
import random
import sys
from collections import Counter
from dataclasses import fields
from types import CodeType, FrameType
from typing import Any

import pytest
from packaging.version import Version
from starlette.testclient import TestClient

from service.api.examples import EXAMPLES
from service.api.routes.plan import _written
from service.application.plan_requests import answer_plan_request, plan_request, read_plan_body
from service.application.schemas.plan import PlanAnswer
from service.application.schemas.serve import ServeInput
from service.application.services import Services
from service.engines.flags import ServeFlags
from service.engines.releases import check_flags, find_release, rules_for
from tests.api.plan_bodies import (
    GEMMA,
    GEMMA_QUERY,
    LLAMA_CONFIG,
    with_engine,
    with_serve,
)


def _candidate(client: TestClient, question: dict[str, Any]) -> dict[str, Any]:
    reply = client.post("/plan", json=question)
    assert reply.status_code == 200, reply.text
    (plan,) = reply.json()["plans"]
    (candidate,) = plan["candidates"]
    return dict(candidate)


def test_the_logged_start_of_gemma_4(client: TestClient) -> None:
    cache = _candidate(client, GEMMA)["kv_cache"]
    assert (cache["num_blocks"], cache["tokens"]) == (9453, 25_200)
    assert cache["max_concurrency"] == pytest.approx(1.8678, abs=5e-5)
    assert [group["layers"] for group in cache["groups"]] == [10] * 6
    assert {group["page_size_bytes"] for group in cache["groups"]} == {131_072}
    assert cache["log_lines"][0].endswith("GPU KV cache size: 25,200 tokens")


def test_more_batched_tokens_keep_more_of_each_window(client: TestClient) -> None:
    cache = _candidate(client, with_serve(GEMMA, max_num_batched_tokens=8192))["kv_cache"]
    assert round(cache["max_concurrency"], 2) == 1.35


@pytest.mark.parametrize(
    ("release", "tokens", "concurrency"), [("0.20.2", 244_817, 1.87), ("0.32.0", 217_334, 1.66)]
)
def test_what_later_releases_log(release: str, tokens: int, concurrency: float, client: TestClient) -> None:
    cache = _candidate(client, with_engine(GEMMA, release))["kv_cache"]
    assert (cache["tokens"], round(cache["max_concurrency"], 2)) == (tokens, concurrency)


def test_a_dtype_of_a_later_release_is_refused_with_those_that_exist(client: TestClient) -> None:
    candidate = _candidate(client, with_serve(GEMMA, kv_cache_dtype="int8_per_token_head"))
    assert (candidate["starts"], candidate["error"]["stage"]) == (False, "dtype")
    for dtype in ("auto", "bfloat16", "fp8", "fp8_e4m3", "fp8_e5m2"):
        assert dtype in candidate["error"]["detail"]


def test_a_refusal_has_the_engines_words_and_fixes(client: TestClient) -> None:
    question = with_serve(with_engine(GEMMA, "0.20.2"), kv_cache_dtype="int8_per_token_head")
    candidate = _candidate(client, question)
    assert (candidate["starts"], candidate["verdict"]) == (False, "does_not_start")
    assert (candidate["error"]["type"], candidate["error"]["stage"]) == ("NotImplementedError", "page_size")
    assert candidate["error"]["fix"]
    assert client.post("/plan", json=question).json()["plans"][0]["recommended"] is None


def test_a_patch_lifts_the_refusal(client: TestClient) -> None:
    question = with_engine(GEMMA, "0.20.2", "vllm#40391")
    reply = client.post("/plan", json=with_serve(question, kv_cache_dtype="int8_per_token_head")).json()
    assert reply["engine"] == {"name": "vllm", "version": "0.20.2", "patches": ["vllm#40391"], "doubt": None}
    assert reply["plans"][0]["recommended"]["starts"] is True


@pytest.mark.parametrize("release", ["0.19.0", "0.32.0"])
def test_a_config_of_ones_own_needs_no_hub(release: str, client: TestClient) -> None:
    # 2,097,152 B hold 16 tokens of 32 layers: 20,000,000,000 B make 9536 blocks, 18.625 times 8192 tokens.
    question = {
        "config": LLAMA_CONFIG,
        "engine": {"version": release},
        "gpus": [{"name": "mine", "memory_bytes": 25_425_608_704, "compute_capability": "8.6"}],
        "serve": {
            "tensor_parallel_size": 1,
            "max_model_len": 8192,
            "kv_cache_memory_bytes": 20_000_000_000,
            "kv_cache_dtype": "auto",
        },
    }
    reply = client.post("/plan", json=question).json()
    assert (reply["model"]["source"], reply["model"]["revision"]) == ("inline", None)
    assert reply["plans"][0]["gpu"]["source"] == "given by the caller"
    (candidate,) = reply["plans"][0]["candidates"]
    cache = candidate["kv_cache"]
    assert (cache["num_blocks"], cache["tokens"], cache["max_concurrency"]) == (9536, 152_576, 18.625)
    assert cache["bytes_per_block"] == 2_097_152


def test_an_inline_config_wins_over_the_models_own(client: TestClient) -> None:
    reply = client.post("/plan", json={**GEMMA, "config": LLAMA_CONFIG}).json()
    assert reply["model"]["id"] == GEMMA["model"]
    assert reply["model"]["source"] == "inline"
    assert reply["model"]["architecture"]["class_name"] == "LlamaForCausalLM"


def test_the_model_says_where_its_config_comes_from(client: TestClient) -> None:
    model = client.post("/plan", json=GEMMA).json()["model"]
    assert model["source"] == "bundled"
    assert "offline" in model["note"]
    kinds = {kind["kind"]: kind["layers"] for kind in model["architecture"]["attention"]}
    assert kinds == {"sliding_window": 50, "full_attention": 10}


def test_the_answer_has_every_field_of_its_schema_and_no_other(client: TestClient) -> None:
    content = client.post("/plan", json=GEMMA).content
    answer = PlanAnswer.model_validate_json(content, extra="ignore")
    assert json.loads(answer.model_dump_json()) == json.loads(content)


def test_memory_terms_stand_in_their_intervals(client: TestClient) -> None:
    memory = _candidate(client, GEMMA)["memory"]
    assert list(memory) == [
        "total",
        "requested",
        "weights",
        "activation",
        "non_torch",
        "cuda_graphs",
        "captured_graphs",
        "available_kv",
    ]
    for term in memory.values():
        assert term["low"] <= term["bytes"] <= term["high"]
        assert term["source"]


def test_get_answers_as_post_does(client: TestClient) -> None:
    assert client.get("/plan", params=GEMMA_QUERY).content == client.post("/plan", json=GEMMA).content


def test_get_takes_every_flag_that_post_takes(client: TestClient) -> None:
    named = {one["name"] for one in client.get("/openapi.json").json()["paths"]["/plan"]["get"]["parameters"]}
    assert ServeInput.model_fields.keys() <= named


def test_flags_are_those_of_the_engine() -> None:
    assert list(ServeInput.model_fields) == [field.name for field in fields(ServeFlags)]


def test_a_flag_that_is_null_is_a_flag_left_out(client: TestClient) -> None:
    nulls = dict.fromkeys(ServeInput.model_fields.keys() - GEMMA["serve"].keys())
    assert (
        client.post("/plan", json=with_serve(GEMMA, **nulls)).content
        == client.post("/plan", json=GEMMA).content
    )


def test_equal_questions_get_equal_bytes(client: TestClient) -> None:
    shuffled = random.Random(7)
    first = client.post("/plan", json=GEMMA).content
    for _ in range(20):
        keys = list(GEMMA["serve"])
        shuffled.shuffle(keys)
        question = {**GEMMA, "serve": {key: GEMMA["serve"][key] for key in keys}}
        assert client.post("/plan", json=dict(reversed(question.items()))).content == first


def test_without_gpus_every_modelled_type_is_planned(client: TestClient) -> None:
    question = {key: value for key, value in GEMMA.items() if key != "gpus"}
    planned = [plan["gpu"]["id"] for plan in client.post("/plan", json=question).json()["plans"]]
    catalog = client.get("/gpus").json()["gpus"]
    assert planned == [gpu["id"] for gpu in catalog if gpu["modelled"]]
    assert any(not gpu["modelled"] for gpu in catalog)


def test_the_whole_catalog_is_answered_in_short_unless_details_are_asked_for(client: TestClient) -> None:
    question = {"model": GEMMA["model"], "workload": {"prompt_tokens": 4000, "concurrent_requests": 4}}
    reply = client.post("/plan", json=question)
    assert len(reply.content) < 200_000
    brief = reply.json()
    assert "serve the whole workload" in brief["verdict"]
    h200 = next(plan for plan in brief["plans"] if plan["gpu"]["id"] == "h200-sxm-141gb")
    gpus = [one["tensor_parallel_size"] for one in h200["candidates"]]
    assert gpus == sorted(set(gpus))
    one = client.post("/plan", json={**question, "gpus": ["h200-sxm-141gb"]}).json()["plans"][0]
    for key in ("tokens", "max_concurrency", "num_blocks", "available_bytes"):
        assert h200["recommended"]["kv_cache"][key] == one["recommended"]["kv_cache"][key]
    assert (h200["command"], h200["reason"]) == (one["recommended"]["command"], one["reason"])
    assert (h200["tried"], h200["starting"]) == (
        len(one["candidates"]),
        sum(candidate["verdict"] != "does_not_start" for candidate in one["candidates"]),
    )


def test_details_are_answered_where_they_are_asked_for(client: TestClient) -> None:
    gpus = [gpu["id"] for gpu in client.get("/gpus").json()["gpus"] if gpu["modelled"]][:9]
    question = {**GEMMA, "gpus": gpus}
    short, full = (
        client.post("/plan", json={**question, "include": part}).json() for part in ([], ["details"])
    )
    assert "memory" not in short["plans"][0]["candidates"][0]
    assert "memory" in full["plans"][0]["candidates"][0]


def test_a_model_too_large_for_every_gpu_is_said_to_fit_on_none(client: TestClient) -> None:
    question = {
        "model": "deepseek-ai/DeepSeek-V3",
        "gpus": ["rtx-4090-24gb", "l40s-48gb"],
        "serve": {"tensor_parallel_size": 1, "kv_cache_dtype": "auto"},
    }
    reply = client.post("/plan", json=question).json()
    verdict = "deepseek-ai/DeepSeek-V3 does not fit on any of the 2 GPU types of the request."
    assert reply["verdict"] == verdict
    assert [plan["recommended"] for plan in reply["plans"]] == [None, None]
    assert all(plan["reason"].startswith("No candidate starts: ") for plan in reply["plans"])


def test_levers_are_answered_where_they_are_asked_for(client: TestClient) -> None:
    assert client.post("/plan", json=GEMMA).json()["plans"][0]["levers"] == []
    levers = client.post("/plan", json={**GEMMA, "include": ["levers"]}).json()["plans"][0]["levers"]
    by_change = {lever["change"]: lever for lever in levers}
    # A batch of 8192 keeps 1.35 requests and one of 2048 keeps 1.87: see the logs of failure 2.
    larger = by_change["--max-num-batched-tokens 8192"]
    assert (larger["flag"], larger["value"]) == ("max_num_batched_tokens", 8192)
    assert round(1.8678 + larger["max_concurrency"], 2) == 1.35
    assert (
        client.get("/plan", params={**GEMMA_QUERY, "include": "levers"}).json()["plans"][0]["levers"]
        == levers
    )


def test_a_table_tells_levers_and_waste(client: TestClient) -> None:
    text = client.get("/plan", params={**GEMMA_QUERY, "include": "levers", "format": "table"}).text
    assert "Single changes, those that give most first:" in text
    assert "% wasted" in text


def test_without_a_dtype_every_dtype_of_the_release_is_tried(client: TestClient) -> None:
    serve = {key: value for key, value in GEMMA["serve"].items() if key != "kv_cache_dtype"}
    reply = client.post("/plan", json={**GEMMA, "serve": serve}).json()
    tried = [candidate["kv_cache_dtype"] for candidate in reply["plans"][0]["candidates"]]
    (release,) = (
        one for one in client.get("/engines").json()["engines"][0]["releases"] if one["version"] == "0.19.0"
    )
    assert sorted(tried) == sorted(release["kv_cache_dtypes"])


def test_candidates_that_do_not_start_come_last(client: TestClient) -> None:
    question = {"model": GEMMA["model"], "gpus": ["rtx-3090-24gb", "h100-sxm-80gb"]}
    reply = client.post("/plan", json=question)
    assert reply.status_code == 200, reply.text
    for plan in reply.json()["plans"]:
        refused = [candidate["verdict"] == "does_not_start" for candidate in plan["candidates"]]
        assert refused == sorted(refused)


def test_the_example_of_the_documentation_is_the_logged_start() -> None:
    assert EXAMPLES["create_plan"].body == GEMMA


def test_a_draft_is_counted_and_commanded(client: TestClient) -> None:
    speculative = {"method": "mtp", "num_speculative_tokens": 2}
    plain = with_serve({**GEMMA, "model": "Qwen/Qwen3.6-35B-A3B", "engine": {"version": "0.32.0"}})
    requested = with_serve(plain, speculative_config=speculative)

    before, after = (client.post("/plan", json=question).json() for question in (plain, requested))

    (without,), (drafted,) = before["plans"][0]["candidates"], after["plans"][0]["candidates"]
    layers = [
        sum(group["layers"] for group in candidate["kv_cache"]["groups"]) for candidate in (without, drafted)
    ]
    assert layers == [40, 41]
    assert drafted["memory"]["weights"]["bytes"] > without["memory"]["weights"]["bytes"]
    said = "--speculative-config.method mtp --speculative-config.num_speculative_tokens 2"
    assert said in drafted["command"]


def test_a_query_says_a_draft_as_json(client: TestClient) -> None:
    text = '{"method": "ngram", "num_speculative_tokens": 3}'
    requested = with_serve(GEMMA, speculative_config={"method": "ngram", "num_speculative_tokens": 3})
    query = {**GEMMA_QUERY, "speculative_config": text}
    assert client.get("/plan", params=query).json() == client.post("/plan", json=requested).json()


def test_a_draft_can_be_given_along(client: TestClient) -> None:
    head = {**LLAMA_CONFIG, "num_hidden_layers": 1}
    speculative = {"method": "eagle", "model": "my/head", "num_speculative_tokens": 3}
    question = {
        "config": {**LLAMA_CONFIG},
        "draft_config": head,
        "gpus": ["h100-sxm-80gb"],
        "serve": {"speculative_config": speculative, "kv_cache_dtype": "auto", "tensor_parallel_size": 1},
    }
    (candidate,) = client.post("/plan", json=question).json()["plans"][0]["candidates"]
    assert [group["layers"] for group in candidate["kv_cache"]["groups"]] == [33]


def test_a_draft_that_is_not_modelled_is_uncertain(client: TestClient) -> None:
    speculative = {"method": "medusa", "model": "openai/gpt-oss-20b", "num_speculative_tokens": 3}
    question = with_serve({**GEMMA, "engine": {"version": "0.32.0"}}, speculative_config=speculative)
    (candidate,) = client.post("/plan", json=question).json()["plans"][0]["candidates"]
    assert candidate["verdict"] == "uncertain"
    assert "Medusa" in candidate["warnings"][0]


def test_an_answer_written_in_parts_is_the_document(services: Services) -> None:
    """What is written one GPU type at a time is what the schema writes at once."""
    gpus = tuple(gpu for gpu in services.gpus if gpu.modelled)[:3]
    body = read_plan_body(
        {"model": "Qwen/Qwen3-8B", "gpus": [gpu.id for gpu in gpus], "include": ["details"]}
    )
    question = asyncio.run(plan_request(body, services))
    plan = answer_plan_request(question, services)
    assert _written(plan, "json", detailed=True).body == PlanAnswer.of(plan).model_dump_json().encode()


CERTAIN = {
    "model": "meta-llama/Llama-3.1-8B",
    "gpus": ["h100-sxm-80gb"],
    "serve": {"tensor_parallel_size": 1, "max_model_len": 8192, "kv_cache_dtype": "auto"},
}
"""A start with much room on every release."""


def test_a_newer_version_is_planned_as_the_newest_checked_release(client: TestClient) -> None:
    newer = with_engine(CERTAIN, "0.34.0.dev5")
    known = client.post("/plan", json=with_engine(CERTAIN, "0.33.0")).json()
    reply = client.post("/plan", json=newer).json()
    assert known["engine"]["doubt"] is None
    assert reply["engine"]["version"] == "0.33.0"
    assert "0.34.0.dev5 is newer than 0.33.0" in reply["engine"]["doubt"]
    (sure,), (unsure,) = known["plans"][0]["candidates"], reply["plans"][0]["candidates"]
    assert (sure["verdict"], unsure["verdict"]) == ("starts", "uncertain")
    assert unsure["kv_cache"] == sure["kv_cache"]
    assert unsure["warnings"] == [reply["engine"]["doubt"], *sure["warnings"]]
    text = client.post("/plan", json=newer, headers={"Accept": "text/plain"}).text
    assert "0.34.0.dev5 is newer than 0.33.0" in " ".join(text.split())


def test_a_comparison_with_a_newer_version_is_in_doubt(client: TestClient) -> None:
    reply = client.post("/plan", json={**CERTAIN, "engine": {"versions": ["0.33.0", "0.34.0"]}}).json()
    (step,) = reply["upgrades"]
    assert (step["before"]["doubt"], step["before"]["verdict"]) == (None, "starts")
    assert "0.34.0" in step["after"]["doubt"]
    assert step["after"]["verdict"] == "uncertain"
    assert reply["engine"]["doubt"] == step["after"]["doubt"]


def test_a_release_is_resolved_once(services: Services) -> None:
    """However many versions are compared, each is parsed once, and the flags are checked once."""
    versions = ["0.19.0", "0.20.2", "0.24.0"]
    body = read_plan_body({**GEMMA, "engine": {"versions": versions}})
    calls: Counter[CodeType] = Counter()

    def count(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            calls[frame.f_code] += 1

    sys.setprofile(count)
    try:
        request = asyncio.run(plan_request(body, services))
        answer = answer_plan_request(request, services)
    finally:
        sys.setprofile(None)
    assert calls[find_release.__code__] == len(versions)
    assert calls[check_flags.__code__] == 1
    assert answer.engine.rules is request.engine.rules is rules_for(Version("0.24.0"))
    assert [str(rules.release) for rules in request.engine.compared] == versions
    assert len(answer.upgrades) == len(versions) - 1


def test_a_patch_is_laid_over_every_compared_release(services: Services) -> None:
    engine = {"versions": ["0.20.1", "0.20.2"], "patches": ["vllm#40391"]}
    request = asyncio.run(plan_request(read_plan_body({**GEMMA, "engine": engine}), services))
    expected = [rules_for(Version(version), ["vllm#40391"]) for version in engine["versions"]]
    assert list(request.engine.compared) == expected
    assert request.engine.rules == expected[-1] != rules_for(Version("0.20.2"))
