"""A body without a query is answered before FastAPI's router, exactly as that answers it."""

import json
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.testclient import TestClient

from service.api.routes.plan import BODY_ALONE

POINT: dict[str, Any] = {"model": "Qwen/Qwen3-8B", "gpus": ["l40s-48gb"], "serve": {"max_model_len": 8192}}
BARE, OTHER = "application/json", "application/json; charset=utf-8"
"""Media types that mean the same; a bare route takes only the first."""


@pytest.fixture(name="taken")
def _taken(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Return whether the bare route answered each request that reached it."""
    taken: list[bool] = []
    answer = BODY_ALONE.answer

    async def watched(request: Request) -> Response | None:
        response = await answer(request)
        taken.append(response is not None)
        return response

    monkeypatch.setattr(BODY_ALONE, "answer", watched)
    return taken


def asked(client: TestClient, body: bytes, **headers: str) -> tuple[int, list[tuple[str, str]], bytes]:
    given = {"X-Request-ID": "same", "Content-Type": BARE, **headers}
    reply = client.post("/v1/plan", content=body, headers=given)
    return reply.status_code, sorted(reply.headers.items()), reply.content


@pytest.mark.parametrize(
    ("body", "answered"),
    [
        (json.dumps(POINT), True),
        (json.dumps({**POINT, "format": "table"}), True),
        (json.dumps({**POINT, "include": ["details"]}), True),
        (json.dumps({**POINT, "engine": {"name": "sglang"}}), False),
        (json.dumps({"command": "vllm serve Qwen/Qwen3-8B", "gpus": ["l40s-48gb"]}), True),
        ('{"model": "Qwen/Qwen3-8B", "gpus": ["l40s-48gb"], "unknown": 1}', False),
        ('{"model": 8}', False),
        ("{", False),
        ("", False),
        ("[" * 5000, False),
    ],
)
def test_it_answers_as_the_route_of_the_contract_does(
    client: TestClient, taken: list[bool], body: str, answered: bool
) -> None:
    bare = asked(client, body.encode())
    assert taken == [answered]
    assert bare == asked(client, body.encode(), **{"Content-Type": OTHER})
    assert taken == [answered], "the other media type is not for the bare route"


@pytest.mark.parametrize("body", [{**POINT, "serve": {"kv_cache_dtype": "fp9"}}, {**POINT, "gpus": ["none"]}])
def test_what_is_wrong_with_a_value_is_said_alike(
    client: TestClient, taken: list[bool], body: dict[str, Any]
) -> None:
    bare = asked(client, json.dumps(body).encode())
    assert bare[0] in {400, 422}
    assert not taken, "the fault is raised, and answered outside of every route"
    assert bare == asked(client, json.dumps(body).encode(), **{"Content-Type": OTHER})


def test_a_caller_with_a_token_of_the_hub_is_left_to_fastapi(client: TestClient, taken: list[bool]) -> None:
    assert asked(client, json.dumps(POINT).encode(), **{"X-Hub-Token": "hf_" + "a" * 34})[0] == 200
    assert client.post("/plan", params={"format": "command"}, json=POINT).status_code == 200
    assert not taken


def test_metrics_know_it_by_its_path(client: TestClient) -> None:
    def count() -> float:
        labels = '{http_request_method="POST",http_response_status_code="200",http_route="/plan"}'
        name = f"http_server_request_duration_seconds_count{labels}"
        lines = client.get("/metrics").text.splitlines()
        return next((float(line.split()[1]) for line in lines if line.startswith(name)), 0)

    before = count()
    assert asked(client, json.dumps(POINT).encode())[0] == 200
    assert count() == before + 1
