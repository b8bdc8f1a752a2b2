"""How many GPUs there are, in each form of a request."""

import re
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.api.test_cli import _run

LLAMA = "meta-llama/Llama-3.1-8B"
QWEN = "Qwen/Qwen3-32B"
OWN = {"name": "NVIDIA Own", "memory_bytes": 48 << 30, "compute_capability": "9.0"}


def _plan(client: TestClient, gpus: list[object]) -> dict[str, object]:
    reply = client.post("/plan", json={"model": LLAMA, "gpus": gpus})
    assert reply.status_code == 200, reply.text
    (plan,) = reply.json()["plans"]
    assert isinstance(plan, dict)
    return plan


@pytest.mark.parametrize("gpu", ["h100-sxm-80gb:8", {"id": "h100-sxm-80gb", "count": 8}, {**OWN, "count": 8}])
def test_a_count_gives_replicas(client: TestClient, gpu: object) -> None:
    plan = _plan(client, [gpu])
    best = plan["recommended"]

    assert plan["count"] == 8
    assert isinstance(best, dict)
    assert best["gpus"] * best["replicas"] == 8
    assert best["all_tokens"] == best["replicas"] * best["kv_cache"]["tokens"]
    assert best["all_requests"] == pytest.approx(best["replicas"] * best["kv_cache"]["max_concurrency"])


@pytest.mark.parametrize("gpu", ["h100-sxm-80gb", {"id": "h100-sxm-80gb"}, OWN])
def test_without_a_count_there_is_one_replica(client: TestClient, gpu: object) -> None:
    plan = _plan(client, [gpu])

    assert "count" not in plan
    assert isinstance(plan["recommended"], dict)
    assert "replicas" not in plan["recommended"]


def test_every_form_of_one_count_gives_one_answer(client: TestClient) -> None:
    text = _plan(client, ["h100-sxm-80gb:4"])
    flat = client.get("/plan", params={"model": LLAMA, "gpu": "h100-sxm-80gb:4"}).json()["plans"][0]

    assert text == _plan(client, [{"id": "h100-sxm-80gb", "count": 4}]) == flat


def test_the_command_line_takes_a_count() -> None:
    code, out, _ = _run("plan", LLAMA, "--gpu", "h100-sxm-80gb:8", "--format", "table")

    assert code == 0
    assert "8 GPUs take 8 replicas" in " ".join(out.split())


@pytest.mark.parametrize(
    ("gpu", "pointer"),
    [
        ("h100-sxm-80gb:0", "/gpus/0"),
        ({"id": "h100-sxm-80gb", "count": 0}, "/gpus/0/count"),
        ({"id": "h100-sxm-80gb", "count": 5000}, "/gpus/0/count"),
        ({**OWN, "count": 0}, "/gpus/0/count"),
        ({"id": "no-such-gpu", "count": 2}, "/gpus/0/id"),
        ({"id": "h100-sxm-80gb", "number": 2}, "/gpus/0/number"),
    ],
)
def test_a_wrong_count_is_named(client: TestClient, gpu: object, pointer: str) -> None:
    reply = client.post("/plan", json={"model": LLAMA, "gpus": [gpu]})

    assert reply.status_code == 422
    problem = reply.json()
    pointers = {error["pointer"] for error in problem.get("errors", [])} | {problem.get("pointer")}
    assert pointer in pointers, problem


def _refused(client: TestClient, gpu: str, **serve: int) -> dict[str, Any]:
    body = {"model": QWEN, "gpus": [gpu], "search": False, "serve": serve}
    (plan,) = client.post("/plan", json=body).json()["plans"]
    assert (plan["verdict"], plan["recommended"]) == ("does_not_start", None)
    error = plan["nearest_refused"]["error"]
    assert isinstance(error, dict)
    return error


@pytest.mark.parametrize(
    ("gpu", "serve", "words"),
    [
        # Each rank takes a GPU of its own; 32.8 billion parameters of 2 bytes each fit two H100s, not one.
        ("h100:1", {"tensor_parallel_size": 4}, "needs 4 GPUs (tensor parallel size 4), and 1 is given."),
        ("h100:2", {"tensor_parallel_size": 4}, "needs 4 GPUs (tensor parallel size 4), and 2 are given."),
        (
            "h100:15",
            {"tensor_parallel_size": 8, "pipeline_parallel_size": 2},
            "needs 16 GPUs (tensor parallel size 8 x pipeline parallel size 2), and 15 are given.",
        ),
        (
            "h200-sxm-141gb:3",
            {"tensor_parallel_size": 2, "data_parallel_size": 2},
            "needs 4 GPUs (tensor parallel size 2 x data parallel size 2), and 3 are given.",
        ),
    ],
)
def test_a_start_needs_a_gpu_for_each_rank(
    client: TestClient, gpu: str, serve: dict[str, int], words: str
) -> None:
    assert _refused(client, gpu, **serve)["message"] == f"The start {words}"


def test_fewer_ranks_are_the_fix_of_too_few_gpus(client: TestClient) -> None:
    def fixes(gpu: str, **serve: int) -> list[str]:
        return [each["change"] for each in _refused(client, gpu, **serve)["fixes"]]

    assert fixes("h100:2", tensor_parallel_size=4) == ["--tensor-parallel-size 2"]
    assert fixes("h100:1", tensor_parallel_size=4) == []  # 61 GiB of weights leave one H100 no such cache
    assert fixes("h200-sxm-141gb:3", tensor_parallel_size=2, data_parallel_size=2) == [
        "--tensor-parallel-size 1",
        "--data-parallel-size 1",
    ]


@pytest.mark.parametrize("count", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("search", [True, False])
def test_nothing_that_is_named_needs_more_gpus_than_there_are(
    client: TestClient, count: int, search: bool
) -> None:
    body = {
        "model": QWEN,
        "gpus": [f"RTX 4090:{count}"],
        "search": search,
        "include": ["levers", "candidates"],
    }
    reply = client.post("/plan", json=body)
    assert reply.status_code == 200, reply.text
    ranks = [int(each) for each in re.findall(r"tensor-parallel-size (\d+)", reply.text)]
    levers = re.findall(r'"flag":"tensor_parallel_size","value":(\d+)', reply.text)

    assert max([1, *ranks, *map(int, levers)]) <= count


def test_a_type_may_be_listed_with_several_counts(client: TestClient) -> None:
    body = {"model": QWEN, "gpus": ["h100:1", "h100:4"], "serve": {"tensor_parallel_size": 4}}
    plans = client.post("/plan", json=body).json()["plans"]

    assert [plan["verdict"] for plan in plans] == ["does_not_start", "starts"]


@pytest.mark.parametrize(("gpu", "code"), [("h100:1", 3), ("h100:3", 3), ("h100:4", 0), ("h100", 0)])
def test_a_gate_fails_on_too_few_gpus(client: TestClient, gpu: str, code: int) -> None:
    flags = ("check", QWEN, "--gpu", gpu, "--tensor-parallel-size", "4")
    pasted = ("check", "--gpu", gpu, "--", "vllm", "serve", QWEN, "-tp", "4")
    flat = client.get("/plan", params={"model": QWEN, "gpu": gpu, "tensor_parallel_size": 4}).json()

    assert [_run(*words)[0] for words in (flags, pasted)] == [code, code]
    assert flat["plans"][0]["verdict"] == ("starts" if code == 0 else "does_not_start")


def test_engines_share_the_gpus_among_all_ranks(client: TestClient) -> None:
    """Two data parallel ranks on four GPUs leave two for the tensor parallel ranks of each."""
    body = {
        "model": QWEN,
        "gpus": ["h100:4"],
        "serve": {"data_parallel_size": 2},
        "engines": [{"name": "vllm"}, {"name": "sglang"}],
    }
    reply = client.post("/plan", json=body)
    assert reply.status_code == 200, reply.text
    assert "--tensor-parallel-size 2 --data-parallel-size 2" in reply.text


def test_gpus_that_only_a_text_counts_are_a_doubt(client: TestClient) -> None:
    """Ray may join more nodes than one manifest shows, so its ranks are not refused."""
    text = f"""
apiVersion: v1
kind: Pod
metadata: {{name: vllm}}
spec:
  nodeSelector: {{nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}}
  containers:
  - name: vllm
    image: vllm/vllm-openai:v0.19.0
    args: [--model, {QWEN}, --tensor-parallel-size, "4"]
    resources: {{limits: {{nvidia.com/gpu: "2"}}}}
"""
    (plan,) = client.post("/plan", json={"command": text}).json()["plans"]

    assert (plan["gpu"]["id"], plan["verdict"]) == ("h100-sxm-80gb", "uncertain")
    assert any("4 ranks" in words for words in plan["recommended"]["warnings"])
