"""Startup logs kept as evidence, on either kind of database: real lines, and what plans make of them."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from fastapi import FastAPI
from typer.testing import CliRunner

from service.cli.main import cli
from service.store.token import Scope
from service.store.tokens import TokenStore
from service.units import GIB
from tests.api.conftest import Client
from tests.startup_log.logged_rows import logged_lines

Bearer = Callable[..., Any]
QWEN = {
    "model": "Qwen/Qwen2.5-1.5B-Instruct",
    "engine": {"version": "0.19.0"},
    "gpu": "t4-16gb",
    "serve": {"gpu_memory_utilization": 0.8, "max_model_len": 4096, "dtype": "half"},
}
"""Told beside row s0407: 2.98 GiB of weights and 8.28 GiB for the cache, on a T4."""
GPT_OSS = {
    "model": "openai/gpt-oss-120b",
    "engine": {"version": "0.25.1"},
    "gpu": "h100-sxm-80gb",
    "serve": {
        "gpu_memory_utilization": 0.95,
        "max_model_len": 131072,
        "max_num_batched_tokens": 1024,
        "tensor_parallel_size": 1,
        "kv_cache_dtype": "auto",
    },
}
"""Told beside row s0485: 61.29 GiB of weights and 10.52 GiB for the cache, on an H100."""
SERVE: dict[str, Any] = GPT_OSS["serve"]  # type: ignore[assignment]
PLAN = {**{k: v for k, v in GPT_OSS.items() if k != "gpu"}, "gpus": ["h100-sxm-80gb"]}
LOGS = {"s0407": QWEN, "s0485": GPT_OSS}


def log_of(row: str) -> str:
    return logged_lines()[row]


async def explained(client: Client, log: str, specified: dict[str, Any], **other: Any) -> dict[str, Any]:  # noqa: ANN401
    reply = await client.post("/explain", json={"log": log, **specified, "keep": True} | other)
    assert reply.status_code == 200, reply.text
    answer: dict[str, Any] = reply.json()
    return answer


async def kept(client: Client, log: str, specified: dict[str, Any], **other: Any) -> dict[str, Any]:  # noqa: ANN401
    became: dict[str, Any] = (await explained(client, log, specified, **other))["kept"]
    return became


async def budget(client: Client, **other: Any) -> dict[str, Any]:  # noqa: ANN401 - members of a plan
    reply = await client.post("/plan", json=PLAN | other | {"include": ["details"]})
    memory: dict[str, Any] = reply.json()["plans"][0]["candidates"][0]["memory"]
    return memory


async def documents(client: Client) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (await client.get("/measurements")).text.splitlines()]


@pytest.mark.parametrize("row", LOGS)
async def test_the_same_log_is_one_measurement(bearer: Bearer, row: str) -> None:
    operator = await bearer(Scope.OPERATOR)
    first = await kept(operator, log_of(row), LOGS[row])
    assert first == {"digest": first["digest"], "new": True, "why": ""}, first
    # Whoever sends it, whenever, and with whatever lines of traffic behind.
    longer = log_of(row) + "\nINFO: 127.0.0.1 - GET /health 200 OK"
    for client in (operator, await bearer(Scope.OPERATOR)):
        assert await kept(client, longer, LOGS[row]) == {**first, "new": False}
    (document,) = await documents(operator)
    assert (document["origin"], document["node"]) == ("log", "logs/pool")


async def test_figures_are_kept_and_words_are_not(bearer: Bearer) -> None:
    operator = await bearer(Scope.OPERATOR)
    header = (
        "INFO non-default args: {'model': '/home/alice/secret-name', 'api_key': ['sk-SECRETsecret1'],"
        " 'max_model_len': 4096, 'gpu_memory_utilization': 0.8, 'dtype': 'half'}\n"
        "HF_TOKEN=hf_abcdefghijklmnop /home/alice\n"
    )
    specified = {name: QWEN[name] for name in ("engine", "gpu")} | {"config": SMALL}
    log = header + "Model loading took 0.25 GiB\nAvailable KV cache memory: 10.90 GiB"
    assert (await kept(operator, log, specified))["new"]
    (document,) = await documents(operator)
    text = json.dumps(document)
    for secret in ("SECRET", "alice", "secret-name", "hf_abc", "loading took"):
        assert secret not in text
    (rank,) = document["ranks"]
    told_readings = {name: reading for name, reading in rank.items() if reading is not None}
    assert told_readings == {
        "weights": {"bytes": round(0.25 * GIB), "how": "parsed"},
        "available_kv": {"bytes": round(10.90 * GIB), "how": "parsed"},
        # 0.19.0 measures graphs and sets nothing aside for them.
        "graphs_estimated": {"bytes": 0, "how": "derived"},
    }
    assert document["flags"]["max_model_len"] == 4096
    assert document["utilization"] == 0.8


SMALL = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 1024,
    "intermediate_size": 2816,
    "num_hidden_layers": 6,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "vocab_size": 32000,
    "max_position_embeddings": 8192,
    "torch_dtype": "float16",
}


@pytest.mark.parametrize(("scope", "status"), [(None, 401), (Scope.READER, 403), (Scope.WORKER, 403)])
async def test_only_operators_keep(bearer: Bearer, scope: Scope | None, status: int) -> None:
    for peer, host in (("10.0.0.9", "dryserve.test"), ("127.0.0.1", "localhost")):
        client = await bearer(scope, peer=peer, host=host)
        body = {"log": log_of("s0485"), **GPT_OSS, "keep": True}
        reply = await client.post("/explain", json=body)
        assert reply.status_code == status
        assert reply.json()["type"] == f"/problems/{'unauthorized' if status == 401 else 'forbidden'}"
        # Explaining alone stays free, and keeps nothing.
        assert (await client.post("/explain", json={**body, "keep": False})).json()["kept"] is None
    assert await documents(await bearer(Scope.OPERATOR)) == []


async def test_a_forged_token_is_refused_even_where_none_is_needed(bearer: Bearer) -> None:
    client = await bearer(None)
    forged = {"Authorization": "Bearer dry_0_0"}
    assert (await client.post("/explain", json={"log": ""}, headers=forged)).status_code == 401
    assert (await client.post("/explain", json={"log": ""})).status_code == 200


async def test_a_kept_log_moves_the_plans_that_follow(bearer: Bearer) -> None:
    """By hand: 75.23 GiB granted of 79.19, less 61.29 of weights and 10.52 left are 3.42 for all the rest."""
    operator = await bearer(Scope.OPERATOR)
    before = await budget(operator)
    assert "evidence" not in before["available_kv"]
    assert (await kept(operator, log_of("s0485"), GPT_OSS))["new"]

    after = await budget(operator)
    evidence = after["available_kv"]["evidence"]
    specified = [evidence[name] for name in ("level", "count", "logs", "age_days")]
    assert specified == ["exact", 1, 1, 0]
    assert after["weights"]["basis"] == after["non_torch"]["basis"] == "calibrated"
    logged = 10.52 * GIB
    assert abs(after["available_kv"]["bytes"] - logged) < abs(before["available_kv"]["bytes"] - logged) / 4
    assert after["available_kv"]["low"] <= logged <= after["available_kv"]["high"]
    rest = sum(after[name]["bytes"] for name in ("activation", "non_torch", "cuda_graphs"))
    assert rest == pytest.approx(3.42 * GIB, abs=0.1 * GIB)

    serve = {"tensor_parallel_size": 1, "max_model_len": 8192}
    other = await budget(operator, model="Qwen/Qwen3-8B", serve=serve)
    assert other["non_torch"]["evidence"]["level"] == "gpu_and_release"
    assert "evidence" not in other["weights"]
    listed = (await operator.get("/calibrations")).json()["calibrations"]
    assert {(each["count"], each["logs"], each["weight"]) for each in listed} == {(1, 1, 0.25)}


async def test_a_probe_outranks_a_log(bearer: Bearer) -> None:
    operator = await bearer(Scope.OPERATOR)
    await kept(operator, log_of("s0485"), GPT_OSS)
    (logged,) = await documents(operator)
    probed = json.loads(json.dumps({**logged, "origin": "probe", "node": "node-1"}))
    probed["ranks"][0]["available_kv"]["bytes"] -= GIB // 16
    imported = await operator.post("/measurements", content=json.dumps(probed))
    assert imported.json() == {"measurements": 1, "new": 1}
    memory = await budget(operator)
    # Two decimals of a GiB, and what the total of the card is known to.
    assert abs(memory["available_kv"]["bytes"] - probed["ranks"][0]["available_kv"]["bytes"]) <= 1
    assert memory["non_torch"]["basis"] == "measured"
    evidence = memory["non_torch"]["evidence"]
    assert (evidence["count"], evidence["logs"]) == (2, 1)


@pytest.mark.parametrize(
    ("loading", "available", "words"),
    [
        ("0.00", "10.52", "0.00 GiB of weights"),
        ("900.0", "10.52", "were requested"),
        ("61.29", "-3.20", "-3.20 GiB for the cache"),
        ("61.29", "0.00", "0.00 GiB for the cache"),
        ("61.29", "5000.00", "were requested"),
        ("15.27", "56.40", "where the plan has"),
    ],
)
async def test_an_absurd_log_moves_nothing(bearer: Bearer, loading: str, available: str, words: str) -> None:
    operator = await bearer(Scope.OPERATOR)
    before = (await operator.post("/plan", json=PLAN)).content
    log = f"Model loading took {loading} GiB memory\nAvailable KV cache memory: {available} GiB"
    became = await kept(operator, log, GPT_OSS)
    assert (became["digest"], became["new"]) == (None, False)
    assert words in became["why"]
    assert await documents(operator) == []
    assert (await operator.get("/calibrations")).json() == {"calibrations": [], "next": None}
    assert (await operator.post("/plan", json=PLAN)).content == before


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"log": "Available KV cache memory: 10.52 GiB"}, "Model loading took"),
        ({"log": "Model loading took 61.29 GiB"}, "Available KV cache memory"),
        ({"model": None}, "model: "),
        ({"engine": {}}, "give engine.version"),
        ({"gpu": None}, "give gpu"),
        ({"serve": {}}, "give serve"),
        ({"serve": {"max_model_len": 4096}}, "serve.gpu_memory_utilization"),
        ({"engine": {"version": "0.24.0", "patches": ["vllm#40391"]}}, "patched"),
        ({"engine": {"version": "0.34.0"}}, "newer than"),
        ({"serve": {**SERVE, "kv_cache_memory_bytes": 10 * GIB}}, "--kv-cache-memory-bytes"),
        ({"serve": {**SERVE, "pipeline_parallel_size": 2}}, "pipeline stage"),
        ({"serve": {**SERVE, "block_size": 7}}, "does not start"),
    ],
)
async def test_a_log_that_tells_too_little_is_told_why(
    bearer: Bearer, change: dict[str, Any], words: str
) -> None:
    operator = await bearer(Scope.OPERATOR)
    specified = {name: value for name, value in (GPT_OSS | change).items() if value is not None}
    became = await kept(operator, log_of("s0485"), specified)
    assert (became["digest"], became["new"]) == (None, False)
    assert words in became["why"]
    assert await documents(operator) == []


async def test_a_flag_that_no_plan_heeds_makes_it_another_start(bearer: Bearer) -> None:
    operator = await bearer(Scope.OPERATOR)
    header = "non-default args: {'model': 'openai/gpt-oss-120b', 'swap_space': 4.0, 'max_num_seqs': 64}\n"
    became = await kept(operator, header + log_of("s0485"), GPT_OSS)
    assert became["digest"] is None
    assert "swap_space" in became["why"]


async def test_a_crowded_gpu_is_kept_and_teaches_nothing(bearer: Bearer) -> None:
    operator = await bearer(Scope.OPERATOR)
    became = await kept(operator, "Initial free memory: 75.30 GiB\n" + log_of("s0485"), GPT_OSS)
    assert became["new"]
    assert "another process used the GPU" in became["why"]
    (document,) = await documents(operator)
    assert document["contaminated"]
    assert (await operator.get("/calibrations")).json() == {"calibrations": [], "next": None}


async def test_what_a_callers_own_token_opens_is_not_kept(bearer: Bearer) -> None:
    operator = await bearer(Scope.OPERATOR)
    operator.headers["X-Hub-Token"] = "hf_" + "a" * 30
    body = {"log": log_of("s0485"), **GPT_OSS, "keep": True}
    reply = await operator.post("/explain", json=body)
    assert "your own token" in reply.json()["kept"]["why"]
    del operator.headers["X-Hub-Token"]
    assert await documents(operator) == []


async def test_people_read_what_became_of_it(bearer: Bearer) -> None:
    operator = await bearer(Scope.OPERATOR)
    operator.headers["Accept"] = "text/plain"
    body = {"log": log_of("s0485"), **GPT_OSS, "keep": True}
    first, second = [(await operator.post("/explain", json=body)).text for _ in range(2)]
    assert "Stored as evidence for later plans: " in first
    assert second.endswith("\nStored before.\n")


def test_the_command_line_keeps_too(
    served: tuple[FastAPI, TokenStore], database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    del served
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("DRYSERVE_DATABASE_URL", database_url)
    words = ["explain", "-", "--model", "openai/gpt-oss-120b", "--engine-version", "0.25.1"]
    words += ["--gpu", "h100-sxm-80gb", "--tensor-parallel-size", "1", "--kv-cache-dtype", "auto"]
    for name, value in SERVE.items():
        words += [f"--{name.replace('_', '-')}", str(value)] if name.startswith(("gpu", "max")) else []
    for new in (True, False):
        result = CliRunner().invoke(cli, [*words, "--keep", "--format", "json"], input=log_of("s0485"))
        assert result.exit_code == 0, result.stderr
        assert json.loads(result.stdout)["kept"]["new"] is new
    assert json.loads(CliRunner().invoke(cli, words, input=log_of("s0485")).stdout)["kept"] is None
