"""How many GPUs there are, in each form of a request."""

import pytest
from fastapi.testclient import TestClient

from tests.api.test_cli import _run

LLAMA = "meta-llama/Llama-3.1-8B"
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
