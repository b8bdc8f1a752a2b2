"""Large questions without a place are refused before anything else is done for them, in the route's words."""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI
from starlette.requests import Request
from structlog.testing import capture_logs

from service.api.app import create_app
from service.api.app_options import AppOptions
from service.api.middleware.request_log import RequestLog
from service.api.work_lanes import WorkLimits
from service.application.services import Services

PEER = "10.0.0.9"
LARGE = {"model": "Qwen/Qwen3-8B", "include": ["details", "levers"]}
POINT = {"model": "Qwen/Qwen3-8B", "gpus": ["l40s-48gb"], "serve": {"tensor_parallel_size": 1}}
ROUTED = {"Origin": "https://page.test"}
"""Headers by which a request is left to its route, which answers alike where no origin is allowed."""
WAITING = 2


@pytest.fixture(name="filled")
def _filled(services: Services) -> FastAPI:
    return create_app(services, AppOptions(work=WorkLimits(large_waiting=WAITING - 1)))


@contextmanager
def taken(app: FastAPI, caller: str = PEER) -> Iterator[None]:
    """Take all places of the lane of large work, and one more, for a caller."""
    scope: dict[str, Any] = {"type": "http", "client": (caller, 4711)}
    with ExitStack() as stack:
        for _ in range(WAITING):
            stack.enter_context(app.state.lanes.large.admit(Request(scope)))
        yield


@pytest.fixture(name="logged")
def _logged(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the paths of the requests that came as far as the log of requests."""
    paths: list[str] = []
    call = RequestLog.__call__

    async def watched(self: RequestLog, scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401 - ASGI's
        if scope["type"] == "http":
            paths.append(scope["path"])
        await call(self, scope, receive, send)

    monkeypatch.setattr(RequestLog, "__call__", watched)
    return paths


async def asked(
    app: FastAPI,
    body: dict[str, Any] | bytes | AsyncIterator[bytes],
    path: str = "/v1/plan",
    peer: str = PEER,
    **headers: str,
) -> tuple[int, list[tuple[str, str]], bytes]:
    """Return status, headers and body of an answer; ``body``: a document, or parts of a text."""
    transport = httpx2.ASGITransport(app=app, client=(peer, 4711))
    content = json.dumps(body).encode() if isinstance(body, dict) else body
    given = {"X-Request-ID": "same", "Content-Type": "application/json", **headers}
    async with httpx2.AsyncClient(transport=transport, base_url="http://dryserve.test") as client:
        reply = await client.post(path, content=content, headers=given)
    return reply.status_code, sorted(reply.headers.items()), reply.content


@pytest.mark.parametrize("path", ["/plan", "/v1/plan"])
async def test_a_refusal_is_the_one_of_the_route(filled: FastAPI, logged: list[str], path: str) -> None:
    with taken(filled):
        status, headers, body = await asked(filled, LARGE, path)
        assert not logged
        assert (status, headers, body) == await asked(filled, LARGE, path, **ROUTED)
        assert logged == [path]
    assert status == 503
    assert int(dict(headers)["retry-after"]) == json.loads(body)["retry_after"]
    assert json.loads(body)["instance"] == "urn:dryserve:request:same"


async def test_ids_of_requests_are_not_shared(filled: FastAPI) -> None:
    with taken(filled):
        first, second = [json.loads((await asked(filled, LARGE, **{"X-Request-ID": ""}))[2]) for _ in "ab"]
    assert first.pop("instance") != second.pop("instance")
    assert first == second


async def test_all_else_is_answered_as_ever(filled: FastAPI) -> None:
    one_start = {"tensor_parallel_size": 1, "kv_cache_dtype": "auto"}
    stored = {"model": "Qwen/Qwen3-8B", "serve": one_start, "format": "command"}
    quiet = await asked(filled, stored)
    assert quiet[0] == 200
    with taken(filled):
        assert (await asked(filled, POINT))[0] == 200
        assert await asked(filled, stored) == quiet, "an answer that is stored needs no place"


async def test_a_caller_without_a_place_is_not_refused_for_those_of_another(filled: FastAPI) -> None:
    with taken(filled):
        assert (await asked(filled, {"model": "Qwen/Qwen3-8B", "search": False}, peer="10.0.0.8"))[0] == 200


async def test_a_body_in_parts_and_a_long_one_are_left_to_the_route(
    filled: FastAPI, logged: list[str]
) -> None:
    text = json.dumps(LARGE).encode()

    async def parts() -> AsyncIterator[bytes]:
        yield text[:5]
        yield text[5:]

    with taken(filled):
        whole = await asked(filled, LARGE)
        assert (await asked(filled, parts()))[::2] == whole[::2]
        assert (await asked(filled, text + b" " * 70_000))[::2] == whole[::2]
    assert len(logged) == 2


async def test_refusals_are_counted_each_and_logged_together(filled: FastAPI) -> None:
    labels = {
        "http_request_method": "POST",
        "http_route": "/plan",
        "http_response_status_code": "503",
    }
    with taken(filled), capture_logs() as lines:
        for _ in range(20):
            await asked(filled, LARGE)
    counted = filled.state.metrics.registry.get_sample_value(
        "http_server_request_duration_seconds_count", labels
    )
    assert counted == 20
    assert [(line["event"], line["overloaded"]) for line in lines] == [("requests refused", 1)]
