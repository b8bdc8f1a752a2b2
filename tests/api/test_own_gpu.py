"""A GPU of the caller's own over HTTP: every form of the same card has the same answer."""

from typing import Any

import pytest
from fastapi.testclient import TestClient

MODEL = "Qwen/Qwen3-8B"
TEXT = "name=my-card,memory=48GiB,cc=8.9"
CARD = {"name": "my-card", "memory_bytes": 48 * 1024**3, "compute_capability": "8.9"}


def _errors(client: TestClient, gpu: object) -> dict[str, str]:
    reply = client.post("/plan", json={"model": MODEL, "gpus": [gpu]})
    assert reply.status_code == 422, reply.text
    return {error["pointer"]: error["detail"] for error in reply.json()["errors"]}


@pytest.mark.parametrize(
    "form",
    [
        TEXT,
        {**CARD, "memory_bytes": "48GiB"},
        {**CARD, "memory_bytes": "49152 MiB"},
        {**CARD, "compute_capability": 8.9},
    ],
)
def test_every_form_has_the_answer_of_the_object(client: TestClient, form: object) -> None:
    def answer(gpu: object) -> Any:  # noqa: ANN401 - an answer
        reply = client.post("/plan", json={"model": MODEL, "gpus": [gpu]})
        assert reply.status_code == 200, reply.text
        return reply.json()

    assert answer(form) == answer(CARD) == client.get("/plan", params={"model": MODEL, "gpu": TEXT}).json()


@pytest.mark.parametrize("number", [9, 9.0])
def test_a_whole_number_is_a_capability_with_zero(client: TestClient, number: float) -> None:
    reply = client.post("/plan", json={"model": MODEL, "gpus": [{**CARD, "compute_capability": number}]})
    assert reply.json()["plans"][0]["gpu"]["compute_capability"] == "9.0"


def test_an_explanation_takes_the_text(client: TestClient) -> None:
    reply = client.post("/explain", json={"log": "vllm serve x", "model": MODEL, "gpu": TEXT})
    assert reply.status_code == 200, reply.text


@pytest.mark.parametrize(
    ("gpu", "pointer", "said"),
    [
        ("name=my-card,memory=48GiB", "/gpus/0", "lacks cc"),
        ("name=my-card,memory=much,cc=8.9", "/gpus/0", "such as 40GiB"),
        ("name=my-card,memory=48GiB,cc=8.1", "/gpus/0/compute_capability", "8.6"),
        ("memory=48GiB,cc=eight", "/gpus/0/compute_capability", "such as 8.9"),
        ({"name": "m", "memory": "48GiB", "cc": 8.9}, "/gpus/0/memory", "use `memory_bytes`"),
        ({"name": "m", "memory": "48GiB", "cc": 8.9}, "/gpus/0/cc", "use `compute_capability`"),
        ({**CARD, "memory_bytes": "much"}, "/gpus/0/memory_bytes", "such as 40GiB"),
        ({**CARD, "memory_bytes": True}, "/gpus/0/memory_bytes", "whole number"),
        ({**CARD, "compute_capability": 8.95}, "/gpus/0/compute_capability", "such as 8.9"),
        ({**CARD, "compute_capability": True}, "/gpus/0/compute_capability", "must be"),
    ],
)
def test_an_error_names_the_member(client: TestClient, gpu: object, pointer: str, said: str) -> None:
    assert said in _errors(client, gpu)[pointer]
