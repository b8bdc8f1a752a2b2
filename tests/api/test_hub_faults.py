"""What the Hub does wrong reaches the caller by its cause."""

from collections.abc import Callable

import httpx2
import pytest
from starlette.testclient import TestClient

from service.api.app import create_app
from service.bootstrap import build_services
from service.settings import Settings
from tests.api.plan_bodies import GEMMA

PRIVATE = "hf_private"
QUESTION = {**GEMMA, "model": "acme/private-1B"}


def _ask(answer: Callable[[httpx2.Request], httpx2.Response]) -> httpx2.Response:
    settings = Settings(HF_ENDPOINT="https://hub.test", HF_TOKEN=PRIVATE, HF_HUB_OFFLINE=False)
    http = httpx2.AsyncClient(transport=httpx2.MockTransport(answer))
    with TestClient(create_app(build_services(settings, http))) as client:
        reply: httpx2.Response = client.post("/plan", json=QUESTION)
    assert PRIVATE not in reply.text
    return reply


def _refusing(status: int, **headers: str) -> Callable[[httpx2.Request], httpx2.Response]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda _: httpx2.Response(status, headers=named)


def _stalled(request: httpx2.Request) -> httpx2.Response:
    raise httpx2.ReadTimeout("stalled", request=request)


def _no_route(request: httpx2.Request) -> httpx2.Response:
    raise httpx2.ConnectError("no route", request=request)


@pytest.mark.parametrize(
    ("answer", "status", "slug"),
    [
        (_refusing(404, X_Error_Code="RepoNotFound"), 404, "model-not-found"),
        (_refusing(404, X_Error_Code="RevisionNotFound"), 404, "revision-not-found"),
        (_refusing(404, X_Error_Code="EntryNotFound"), 404, "config-not-found"),
        (_refusing(403, X_Error_Code="GatedRepo"), 403, "model-gated"),
        (_refusing(429, Retry_After="17"), 503, "hub-rate-limited"),
        (_refusing(500), 502, "hub-unreachable"),
        (_stalled, 504, "hub-timed-out"),
        (_no_route, 502, "hub-unreachable"),
        (lambda _: httpx2.Response(200, html="<p>sign in</p>"), 502, "config-not-json"),
        (lambda _: httpx2.Response(200, content=b"[" * 500 + b"]" * 500), 502, "config-not-json"),
        (lambda _: httpx2.Response(200, content=b" " * (17 << 20)), 502, "config-too-large"),
        (lambda _: httpx2.Response(200, json={"architectures": ["Unheard"]}), 422, "unknown-architecture"),
        (lambda _: httpx2.Response(200, json={"architectures": 7}), 422, "invalid-config"),
    ],
)
def test_a_fault_of_the_hub(
    answer: Callable[[httpx2.Request], httpx2.Response], status: int, slug: str
) -> None:
    reply = _ask(answer)
    assert (reply.status_code, reply.json()["type"]) == (status, f"/problems/{slug}"), reply.text
    assert reply.headers["content-type"] == "application/problem+json"


def test_a_used_up_quota_says_when_to_ask_again() -> None:
    reply = _ask(_refusing(429, Retry_After="17"))
    assert (reply.headers["retry-after"], reply.json()["retry_after"]) == ("17", 17)


def test_a_gated_model_says_how_to_get_access() -> None:
    assert (
        "https://hub.test/acme/private-1B" in _ask(_refusing(403, X_Error_Code="GatedRepo")).json()["detail"]
    )
