"""Other engines over HTTP: bodies, flags by their own names, refusals, forms of the answer."""

from typing import Any

import pytest
import yaml
from starlette.testclient import TestClient

from service.application.schemas.flags.engine_serve import (
    LlamaServeInput,
    SglangServeInput,
    TensorrtServeInput,
)
from service.llama_cpp.cache_types import CACHE_TYPES
from service.llama_cpp.server_flags import ServerFlags
from service.sglang.server_args import CACHE_BITS as SGLANG_TYPES
from service.sglang.server_args import SglangArgs
from service.tensorrt_llm.llm_args import CACHE_BITS as TENSORRT_TYPES
from service.tensorrt_llm.llm_args import TensorrtArgs

GEMMA4 = {
    "model": "google/gemma-4-31B-it",
    "gpus": ["h100-sxm-80gb:2"],
    "cache_bytes": int(11.54 * 2**30),
}


def planned(client: TestClient, **members: Any) -> dict[str, Any]:  # noqa: ANN401
    reply = client.post("/plan", json={**GEMMA4, **members})
    assert reply.status_code == 200, reply.text
    (plan,) = reply.json()["plans"]
    return dict(plan)


def faults(client: TestClient, **members: Any) -> list[tuple[str, str]]:  # noqa: ANN401
    reply = client.post("/plan", json={**GEMMA4, **members})
    assert reply.status_code == 422, reply.text
    return [(each["pointer"], each["detail"]) for each in reply.json()["errors"]]


@pytest.mark.parametrize(
    "serve",
    [
        {"c": 0, "np": 1, "ctk": "q8_0", "ctv": "q8_0"},
        {"-c": "0", "-np": "1", "--cache-type-k": "q8_0", "--cache-type-v": "q8_0"},
        {"ctx_size": 0, "parallel": 1, "cache-type-k": "q8_0", "cache_type_v": "q8_0"},
    ],
)
def test_flags_of_llama_cpp_by_any_of_their_names(client: TestClient, serve: dict[str, Any]) -> None:
    plan = planned(client, engine={"name": "llama.cpp"}, serve=serve)
    assert plan["longest_request"]["tokens"] == 262_144
    assert [round(size / 2**20) for size in plan["cache_bytes"]] == [5772, 5746]
    assert plan["log_lines"][0] == "llama_kv_cache_iswa: creating non-SWA KV cache, size = 262144 cells"


def test_flags_of_sglang_and_tensorrt_llm(client: TestClient) -> None:
    sglang = planned(
        client, engine={"name": "sglang", "version": "0.5.20"}, serve={"swa-full-tokens-ratio": 0.25}
    )
    assert (sglang["own_tokens"], sglang["version"]) == (86_432, "0.5.20")
    tensorrt = planned(client, engine={"name": "tensorrt-llm"}, serve={"pool_ratio": [0.091, 0.909]})
    assert tensorrt["longest_request"]["tokens"] == 262_144
    assert any("nothing of TensorRT-LLM was run" in note for note in tensorrt["notes"])


def test_several_engines_side_by_side(client: TestClient) -> None:
    engines = ["vllm", {"name": "llama.cpp", "serve": {"np": 1}}, "sglang", "tensorrt-llm"]
    reply = client.post("/plan", json={**GEMMA4, "engines": engines, "serve": {"max_model_len": 8192}})
    assert reply.status_code == 200, reply.text
    (gpu,) = reply.json()["gpus"]
    assert [row["engine"] for row in gpu["engines"]] == ["vllm", "llama.cpp", "sglang", "tensorrt-llm"]
    assert [row["longest_request"]["tokens"] for row in gpu["engines"][1:]] == [262_144, 33_611, 49_728]
    assert "--max-model-len 8192" in gpu["engines"][0]["command"]


def test_the_table_says_which_figure_is_which(client: TestClient) -> None:
    body = {**GEMMA4, "engines": ["llama.cpp", "sglang"]}
    table = client.post("/plan?format=table", json=body).text
    assert "254,464" in table
    assert "33,611" in table
    assert "Longest request: tokens of its prompt and answer" in table


def test_the_same_by_query(client: TestClient) -> None:
    query: dict[str, Any] = {
        "model": GEMMA4["model"],
        "gpu": "h100-sxm-80gb:2",
        "cache_bytes": GEMMA4["cache_bytes"],
        "engine": "llama.cpp",
        "engine_flags": "-np 4 -no-kvu",
    }
    reply = client.get("/plan", params=query)
    assert reply.status_code == 200, reply.text
    assert reply.json()["plans"][0]["longest_request"]["tokens"] == 59_648


@pytest.mark.parametrize(
    ("members", "pointer", "words"),
    [
        ({"engine": {"name": "llamacpp"}}, "/engine/name", "nearest: llama.cpp"),
        ({"engine": {"name": "llama.cpp"}, "serve": {"ctx": 1}}, "/serve", "nearest: ctx_size"),
        ({"engine": {"name": "llama.cpp"}, "serve": {"c": "many"}}, "/serve/ctx_size", "whole number"),
        ({"engine": {"name": "llama.cpp", "version": "0.3.36"}}, "/engine/version", "is no build"),
        ({"engine": {"name": "sglang"}, "serve": {"page": 1}}, "/serve", "nearest: page_size"),
        ({"engine": {"name": "sglang", "version": "0.4.0"}}, "/engine/version", "no release of SGLang"),
        ({"engine": {"name": "tensorrt-llm"}, "serve": {"tokens_block": 1}}, "/serve", "tokens_per_block"),
        ({"engines": ["vlm"]}, "/engines/0", "nearest: vllm"),
        ({"engines": [{"name": "sglang", "version": "x"}]}, "/engines/0/version", "no release of SGLang"),
    ],
)
def test_what_is_refused_by_name(
    client: TestClient, members: dict[str, Any], pointer: str, words: str
) -> None:
    found = faults(client, **members)
    assert found[0][0] == pointer
    assert words in found[0][1]


@pytest.mark.parametrize("name", ["llama.cpp", "sglang", "tensorrt-llm"])
def test_commands_for_docker_and_kubernetes(client: TestClient, name: str) -> None:
    body = {**GEMMA4, "engine": {"name": name}}
    docker = client.post("/plan?format=docker", json=body).text
    assert docker.startswith("docker run --rm --gpus all")
    manifest = yaml.safe_load(client.post("/plan?format=kubernetes", json=body).text)
    (container,) = manifest["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["limits"] == {"nvidia.com/gpu": "2"}
    assert container["image"] in docker
    assert "google/gemma-4-31B-it" in " ".join(container["args"])
    (service,) = yaml.safe_load(client.post("/plan?format=compose", json=body).text)["services"].values()
    assert (service["image"], service["command"]) == (container["image"], container["args"])
    assert service["deploy"]["resources"]["reservations"]["devices"] == [
        {"driver": "nvidia", "count": 2, "capabilities": ["gpu"]}
    ]


def test_choices_are_the_types_that_engines_have() -> None:
    def choices(schema: type[Any], field: str) -> set[str]:
        return set(schema.model_fields[field].annotation.__args__)

    assert choices(LlamaServeInput, "cache_type_k") == set(CACHE_TYPES)
    assert choices(SglangServeInput, "kv_cache_dtype") == set(SGLANG_TYPES)
    assert choices(TensorrtServeInput, "dtype") == set(TENSORRT_TYPES)


def test_defaults_are_the_engines_own() -> None:
    assert LlamaServeInput().flags() == ServerFlags()
    assert SglangServeInput().args() == SglangArgs()
    assert TensorrtServeInput().args() == TensorrtArgs()


def test_the_table_adds_up_what_a_gpu_holds(client: TestClient) -> None:
    body = {"model": "Qwen/Qwen3-8B", "gpus": ["l4-24gb"], "engines": ["llama.cpp", "tensorrt-llm"]}
    table = client.post("/plan?format=table", json=body).text
    head, _, *rows = table.splitlines()[3:7]
    ends = [head.index(f" {name} ") + len(name) + 1 for name in ("weights", "cache", "in all")]
    for row in rows:
        weights, cache, whole = (float(row[:end].split()[-1]) for end in ends)
        # 22.04 GiB of an L4 hold weights, cache and buffers.
        assert weights + cache < whole < 22.04
    assert table.count("the compute buffer is assumed") == 1
