"""The contract of a plan, through the real advisor."""

import asyncio
import json
import random
import re
import sys
from collections import Counter
from dataclasses import fields
from inspect import unwrap
from types import CodeType, FrameType
from typing import Any

import pytest
from packaging.version import Version
from starlette.testclient import TestClient

from service.api.examples import EXAMPLES
from service.application.plans.plan_requests import answer_plan_request, plan_request, read_plan_body
from service.application.problems.flag_faults import flag_faults
from service.application.schemas.answers.plan import PlanAnswer
from service.application.schemas.flags.serve import ServeInput
from service.application.services import Services
from service.engines.flags import ServeFlags
from service.engines.releases import find_release, rules_for
from tests.api.plan_bodies import (
    GEMMA,
    GEMMA_QUERY,
    LLAMA_CONFIG,
    with_engine,
    with_serve,
)


def _candidate(client: TestClient, question: dict[str, Any]) -> dict[str, Any]:
    (candidate,) = _candidates(client, question)
    return candidate


def _candidates(client: TestClient, question: dict[str, Any]) -> list[dict[str, Any]]:
    reply = client.post("/plan", json={**question, "include": ["details"]})
    assert reply.status_code == 200, reply.text
    (plan,) = reply.json()["plans"]
    return list(plan["candidates"])


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
    reply = client.post("/plan", json={**question, "include": ["details"]}).json()
    assert (reply["model"]["source"], reply["model"]["revision"]) == ("inline", None)
    assert reply["plans"][0]["gpu_type"]["source"] == "given by the caller"
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
    assert "HF_HUB_OFFLINE is set" in model["note"]
    kinds = {kind["kind"]: kind["layers"] for kind in model["architecture"]["attention"]}
    assert kinds == {"sliding_window": 50, "full_attention": 10}


def test_the_answer_has_every_field_of_its_schema_and_no_other(client: TestClient) -> None:
    for include in ([], ["details", "levers"]):
        content = client.post("/plan", json={**GEMMA, "include": include}).content
        answer = PlanAnswer.model_validate_json(content, extra="forbid")
        assert json.loads(answer.model_dump_json()) == json.loads(content)


def test_memory_terms_stand_in_their_intervals(client: TestClient) -> None:
    reply = client.post("/plan", json={**GEMMA, "include": ["memory"]}).json()
    memory = reply["plans"][0]["recommended"]["memory"]
    assert list(memory) == [
        "total",
        "requested",
        "weights",
        "activation",
        "non_torch",
        "cuda_graphs",
        "captured_graphs",
        "available_kv",
        "adapters",
        "host",
    ]
    host = memory.pop("host")
    for term in (*memory.values(), *host.values()):
        assert term["low"] <= term["bytes"] <= term["high"]
        assert reply["sources"][term["source"]]


def test_get_answers_as_post_does(client: TestClient) -> None:
    assert client.get("/plan", params=GEMMA_QUERY).content == client.post("/plan", json=GEMMA).content


def test_get_takes_every_flag_that_post_takes(client: TestClient) -> None:
    named = {
        one["name"] for one in client.get("/openapi.json").json()["paths"]["/v1/plan"]["get"]["parameters"]
    }
    assert ServeInput.model_fields.keys() <= named


def test_get_takes_objects_as_json(client: TestClient) -> None:
    limits = {"image": {"count": 1, "width": 448}, "video": 0}
    posted = client.post("/plan", json=with_serve(GEMMA, limit_mm_per_prompt=limits)).content

    found = client.get("/plan", params={**GEMMA_QUERY, "limit_mm_per_prompt": json.dumps(limits)}).content

    assert found == posted
    assert b"--limit-mm-per-prompt" in found


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


WORKLOAD = {"prompt_tokens": 8000, "output_tokens": 1000, "concurrent_requests": 8}


@pytest.mark.parametrize("model", ["google/gemma-4-31B-it", "Qwen/Qwen3-32B", "deepseek-ai/DeepSeek-V3"])
@pytest.mark.parametrize(
    ("more", "limit"), [({}, 100_000), ({"workload": WORKLOAD}, 100_000)], ids=["", "workload"]
)
def test_an_answer_is_small_unless_more_is_included(
    model: str, more: dict[str, Any], limit: int, client: TestClient
) -> None:
    question = {"model": model, **more}
    catalog = client.post("/plan", json=question)
    one = client.post("/plan", json={**question, "gpus": ["h200-sxm-141gb"]})
    assert len(catalog.json()["plans"]) > 70
    assert len(catalog.content) < limit
    assert len(one.content) < 20_000


def _paths(value: Any, path: str = "") -> set[str]:  # noqa: ANN401 - any JSON value
    """Return the paths of all members, whatever the ids of texts and the length of lists."""
    if isinstance(value, dict):
        named = path == ".sources"
        return {path}.union(
            *(_paths(each, path if named else f"{path}.{key}") for key, each in value.items())
        )
    if isinstance(value, list):
        return {path}.union(*(_paths(each, f"{path}[]") for each in value if isinstance(each, dict)))
    return {path}


def _without_fixes(plan: Any) -> set[str]:  # noqa: ANN401 - any JSON value
    """Return the paths of a plan. With many GPU types, only the nearest candidate has fixes."""
    return {path for path in _paths(plan) if ".error.fixes[]" not in path}


@pytest.mark.parametrize("include", [[], ["memory"], ["cache"], ["candidates"], ["levers"], ["details"]])
def test_the_shape_does_not_depend_on_the_number_of_gpu_types(include: list[str], client: TestClient) -> None:
    gpus = [gpu["id"] for gpu in client.get("/gpus").json()["gpus"] if gpu["modelled"]][:9]
    question = {"model": "Qwen/Qwen3-8B", "serve": {"max_model_len": 8192, "kv_cache_dtype": "auto"}}
    asked = {**question, "include": include}
    many = client.post("/plan", json={**asked, "gpus": gpus}).json()
    for gpu, plan in zip(gpus, many["plans"], strict=True):
        alone = client.post("/plan", json={**asked, "gpus": [gpu]}).json()
        assert _without_fixes(alone["plans"][0]) == _without_fixes(plan)
        # Among many types, a reason leaves out what else could be done.
        assert alone["plans"][0]["reason"].startswith(plan["reason"].removesuffix(" ..."))
        assert plan["reason"]
        assert alone["plans"][0]["recommended"]["command"] == plan["recommended"]["command"]
        assert alone.keys() == many.keys()


def test_parts_are_included_by_name(client: TestClient) -> None:
    plain = client.post("/plan", json=GEMMA).json()["plans"][0]
    best = plain["recommended"]
    assert not {"candidates", "levers", "gpu_type"} & plain.keys()
    assert not {"quality", "waste", "notes", "attention_backends"} & best.keys()
    assert set(best["memory"]["weights"]) == {"bytes"}
    assert set(best["memory"]["available_kv"]) == {"bytes", "low", "high"}
    memory = client.post("/plan", json={**GEMMA, "include": ["memory"]}).json()["plans"][0]["recommended"]
    assert {"low", "high", "basis", "source"} <= memory["memory"]["weights"].keys()
    assert "groups" not in memory["kv_cache"]
    cache = client.post("/plan", json={**GEMMA, "include": ["cache"]}).json()["plans"][0]["recommended"]
    assert cache["kv_cache"]["log_lines"][0].endswith("GPU KV cache size: 25,200 tokens")
    assert {"quality", "waste", "notes", "attention_backends"} <= cache.keys()
    # The note about what the release counts as tokens is not lost: it is there with the cache.
    assert any("blocks // groups" in note for note in cache["notes"])
    assert not any("blocks // groups" in words for words in best["warnings"])


def test_an_outcome_counts_gpu_types(client: TestClient) -> None:
    question = {"model": GEMMA["model"], "workload": WORKLOAD}
    reply = client.post("/plan", json=question).json()
    verdicts = Counter(plan["verdict"] for plan in reply["plans"])
    outcome = reply["outcome"]
    assert {name: outcome[name] for name in ("starts", "uncertain", "does_not_start")} == {
        name: verdicts[name] for name in ("starts", "uncertain", "does_not_start")
    }
    kept = [plan["recommended"]["admission"] for plan in reply["plans"] if plan["recommended"]]
    wanted = WORKLOAD["concurrent_requests"]
    assert outcome["serves_workload"] == sum(
        min(each["admitted_at_once"], each["completed_without_preemption"]) >= wanted for each in kept
    )
    assert client.post("/plan", json=GEMMA).json()["outcome"]["serves_workload"] is None


def test_a_refusal_that_all_gpu_types_share_is_said_once(client: TestClient) -> None:
    """vLLM 0.33.0, config/model.py, _get_and_verify_max_len: the length is refused before a GPU is asked."""
    question = {"model": "Qwen/Qwen3-235B-A22B-FP8", "serve": {"max_model_len": 131072}}
    reply = client.post("/plan", json=question).json()
    assert "max_model_len (131072) is greater than" in reply["common_refusal"]["message"]
    assert reply["outcome"]["does_not_start"] == len(reply["plans"])
    assert all(plan["nearest_refused"]["error"]["stage"] == "config" for plan in reply["plans"])
    fits = client.post("/plan", json={**question, "serve": {"max_model_len": 40960}}).json()
    assert fits["common_refusal"] is None


def test_the_nearest_refused_candidate_has_its_memory(client: TestClient) -> None:
    question = {
        "model": "deepseek-ai/DeepSeek-V3",
        "gpus": ["rtx-4090-24gb"],
        "include": ["candidates"],
        "serve": {"kv_cache_dtype": "auto"},
    }
    (plan,) = client.post("/plan", json=question).json()["plans"]
    near = plan["nearest_refused"]
    assert plan["recommended"] is None
    rooms = [each["memory"]["available_kv"]["bytes"] for each in plan["candidates"] if each["memory"]]
    assert near["memory"]["available_kv"]["bytes"] == max(rooms)
    assert near["gpus"] == near["tensor_parallel_size"] * near["pipeline_parallel_size"]


def test_a_model_too_large_for_every_gpu_is_said_to_fit_on_none(client: TestClient) -> None:
    question = {
        "model": "deepseek-ai/DeepSeek-V3",
        "gpus": ["rtx-4090-24gb", "l40s-48gb"],
        "serve": {"tensor_parallel_size": 1, "kv_cache_dtype": "auto"},
    }
    reply = client.post("/plan", json=question).json()
    verdict = "deepseek-ai/DeepSeek-V3 on 2 GPU types: 0 start, 0 uncertain, 2 do not start."
    assert reply["verdict"] == verdict
    assert [plan["recommended"] for plan in reply["plans"]] == [None, None]
    assert all(plan["reason"].startswith("No candidate starts: ") for plan in reply["plans"])


def test_levers_are_answered_where_they_are_asked_for(client: TestClient) -> None:
    assert "levers" not in client.post("/plan", json=GEMMA).json()["plans"][0]
    levers = client.post("/plan", json={**GEMMA, "include": ["levers"]}).json()["plans"][0]["levers"]
    # A batch of 8192 keeps 1.35 requests and one of 2048 keeps 1.87: see the logs of failure 2.
    assert "--max-num-batched-tokens 8192" not in {lever["change"] for lever in levers}
    serve = {**GEMMA["serve"], "max_num_batched_tokens": 8192}
    larger = client.post("/plan", json={**GEMMA, "serve": serve, "include": ["levers"]}).json()
    by_change = {lever["change"]: lever for lever in larger["plans"][0]["levers"]}
    smaller = by_change["--max-num-batched-tokens 2048"]
    assert (smaller["flag"], smaller["value"]) == ("max_num_batched_tokens", 2048)
    assert round(1.8678 - smaller["max_concurrency"], 2) == 1.35
    assert (
        client.get("/plan", params={**GEMMA_QUERY, "include": "levers"}).json()["plans"][0]["levers"]
        == levers
    )


def test_a_table_tells_levers_and_waste(client: TestClient) -> None:
    text = client.get("/plan", params={**GEMMA_QUERY, "include": "levers", "format": "table"}).text
    assert "Changes that give more, in the order to try them: what costs nothing first," in " ".join(
        text.split()
    )
    assert re.search(r"takes [\d.]+ GiB of a rank: [\d.]+ its tokens and states, [\d.]+ tokens outside", text)


def test_without_a_dtype_every_dtype_of_the_release_is_tried(client: TestClient) -> None:
    serve = {key: value for key, value in GEMMA["serve"].items() if key != "kv_cache_dtype"}
    tried = [each["kv_cache_dtype"] for each in _candidates(client, {**GEMMA, "serve": serve})]
    (release,) = (
        one for one in client.get("/engines").json()["engines"][0]["releases"] if one["version"] == "0.19.0"
    )
    # One candidate for names of one stored cache: fp8_e4m3 is fp8, bfloat16 is auto for this model.
    assert set(tried) <= set(release["kv_cache_dtypes"])
    assert set(release["kv_cache_dtypes"]) - set(tried) <= {"fp8_e4m3", "bfloat16"}


def test_candidates_that_do_not_start_come_last(client: TestClient) -> None:
    gpus = ["rtx-3090-24gb", "h100-sxm-80gb"]
    reply = client.post("/plan", json={"model": GEMMA["model"], "gpus": gpus, "include": ["candidates"]})
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

    without, drafted = (_candidate(client, question) for question in (plain, requested))
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
    candidate = _candidate(client, question)
    assert [group["layers"] for group in candidate["kv_cache"]["groups"]] == [33]


def test_a_draft_that_is_not_modelled_is_uncertain(client: TestClient) -> None:
    speculative = {"method": "medusa", "model": "openai/gpt-oss-20b", "num_speculative_tokens": 3}
    question = with_serve({**GEMMA, "engine": {"version": "0.32.0"}}, speculative_config=speculative)
    candidate = _candidate(client, question)
    assert candidate["verdict"] == "uncertain"
    assert "Medusa" in candidate["warnings"][0]


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
    sure, unsure = known["plans"][0]["recommended"], reply["plans"][0]["recommended"]
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
    """However many versions are compared, each is parsed once at most, and the flags are checked once."""
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
    assert calls[unwrap(find_release).__code__] <= len(versions)
    assert calls[flag_faults.__code__] == 1
    assert answer.engine.rules is request.engine.rules is rules_for(Version("0.24.0"))
    assert [str(rules.release) for rules in request.engine.compared] == versions
    assert len(answer.upgrades) == len(versions) - 1


def test_a_patch_is_laid_over_every_compared_release(services: Services) -> None:
    engine = {"versions": ["0.20.1", "0.20.2"], "patches": ["vllm#40391"]}
    request = asyncio.run(plan_request(read_plan_body({**GEMMA, "engine": engine}), services))
    expected = [rules_for(Version(version), ["vllm#40391"]) for version in engine["versions"]]
    assert list(request.engine.compared) == expected
    assert request.engine.rules == expected[-1] != rules_for(Version("0.20.2"))


def test_the_fixes_of_a_shared_refusal_name_their_gpu_and_their_ranks(client: TestClient) -> None:
    """The config of Qwen3-32B allows 40,960 tokens. The start that is named has the cache of the fix."""
    body = {"model": "Qwen/Qwen3-32B", "serve": {"max_model_len": 200000}}
    refusal = client.post("/plan", json=body).json()["common_refusal"]
    (fix,) = refusal["fixes"]
    named = re.search(
        r"tried on (\S+) .* --kv-cache-dtype (\S+) --tensor-parallel-size (\d+)\.", refusal["notes"][0]
    )
    assert named is not None
    gpu, dtype, ranks = named.groups()
    flags = {"max_model_len": 40960, "kv_cache_dtype": dtype, "tensor_parallel_size": int(ranks)}
    start = client.post("/plan", json={**body, "gpus": [gpu], "serve": flags, "search": False}).json()
    catalog = client.get("/gpus", params={"limit": 200}).json()
    modelled = [each for each in catalog["gpus"] if each["modelled"]]

    assert fix["change"] == "--max-model-len 40960"
    assert start["plans"][0]["recommended"]["kv_cache"]["tokens"] == fix["tokens"]
    assert start["plans"][0]["gpu"]["memory_bytes"] == max(each["memory_bytes"] for each in modelled)


def test_what_many_gpu_types_share_is_said_once(client: TestClient) -> None:
    """Quantization without a method is in doubt on every GPU; many GPUs lack a kernel for sparse MLA."""
    doubted = client.post("/plan", json={"model": "nvidia/nemotron-ultra-rl-050826"}).json()
    (shared,) = doubted["common_warnings"]
    assert "quant_algo NVFP4" in shared
    assert all(
        shared not in (plan["recommended"] or plan["nearest_refused"])["warnings"]
        for plan in doubted["plans"]
    )
    alone = {"model": "nvidia/nemotron-ultra-rl-050826", "gpus": ["h100-sxm-80gb"]}
    one = client.post("/plan", json=alone).json()
    assert (one["common_warnings"], shared in one["plans"][0]["recommended"]["warnings"]) == ([], True)

    sparse = {"model": "nvidia/GLM-5.3-NVFP4"}
    refused = [plan["nearest_refused"] for plan in client.post("/plan", json=sparse).json()["plans"]]
    words = [each["error"]["message"] for each in refused if each and each["error"]["stage"] == "backend"]
    assert len(words) > 30
    assert len({each for each in words if not each.endswith(" ...")}) < 4
    assert words[0].startswith(words[1].removesuffix(" ...")[:50])
    whole = client.post("/plan", json={**sparse, "include": ["candidates"]}).json()["plans"]
    assert not any(
        each["nearest_refused"]["error"]["message"].endswith(" ...")
        for each in whole
        if each["nearest_refused"]
    )
