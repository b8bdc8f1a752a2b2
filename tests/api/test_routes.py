"""What is there beside plans."""

import re

import pytest
from fastapi import FastAPI
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from service import __version__
from service.api.app import create_app
from service.api.app_options import AppOptions
from service.application.services import Services
from tests.api.plan_bodies import GEMMA


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/health"])
def test_a_probe_answers(path: str, client: TestClient) -> None:
    answer = client.get(path).json()
    assert answer.pop("database") in {"unused", "current"}
    assert answer == {"status": "ok", "version": __version__}


def test_a_model_is_read(client: TestClient) -> None:
    model = client.get("/models/google/gemma-4-31B-it").json()
    architecture = model["architecture"]
    assert (model["source"], architecture["num_layers"], architecture["dtype"]) == ("bundled", 60, "bfloat16")
    assert client.get("/models/google/gemma-5").json()["type"] == "/problems/model-not-found"


def test_every_bundled_model_is_read_or_refused_by_name(client: TestClient) -> None:
    names = [name for name in client.get("/models").json()["models"] if "/" in name]
    assert len(names) > 50
    for name in names:
        reply = client.get(f"/models/{name}")
        assert reply.status_code == 200 or reply.json()["type"] == "/problems/unknown-architecture", (
            reply.text
        )


def test_models_are_searched_by_words(client: TestClient) -> None:
    found = client.get("/models", params={"search": "gemma it"}).json()["models"]
    assert "google/gemma-4-31B-it" in found
    assert all("gemma" in name.lower() for name in found)


def test_the_catalog_is_listed(client: TestClient) -> None:
    gpus = client.get("/gpus").json()["gpus"]
    assert len(gpus) >= 60
    for gpu in gpus:
        assert gpu["memory_low_bytes"] <= gpu["memory_bytes"] <= gpu["memory_high_bytes"]
    assert client.get(f"/gpus/{gpus[0]['id']}").json() == gpus[0]


def test_an_unknown_gpu_is_not_found(client: TestClient) -> None:
    reply = client.get("/gpus/rtx-3091")
    assert (reply.status_code, reply.json()["type"]) == (404, "/problems/unknown-gpu")
    assert "rtx-3090-24gb" in reply.json()["nearest"]


def test_engines_are_listed(client: TestClient) -> None:
    (engine,) = client.get("/engines").json()["engines"]
    releases = {one["version"]: one["kv_cache_dtypes"] for one in engine["releases"]}
    assert {"0.19.0", "0.19.1", "0.20.2", "0.24.0", "0.26.0", "0.32.0"} <= releases.keys()
    assert "int8_per_token_head" not in releases["0.19.0"]
    assert "int8_per_token_head" in releases["0.20.2"]
    facts = {one["version"]: (one["released"], one["checked"]) for one in engine["releases"]}
    assert facts["0.31.0"] == ("2026-10-05", ["oracle", "sources"])
    assert all(checked for _, checked in facts.values())
    assert {"vllm#40391", "vllm#40128", "vllm#39866"} <= {patch["id"] for patch in engine["patches"]}


def test_requests_are_counted_by_route_and_probes_are_not(services: Services) -> None:
    with TestClient(create_app(services)) as client:
        client.post("/plan", json=GEMMA)
        client.get("/models/google/gemma-4-31B-it")
        client.get("/nowhere")
        client.get("/livez")
        text = client.get("/metrics").text
    counted = {
        sample.labels["http_route"]: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "http_server_request_duration_seconds_count"
    }
    assert counted == {"/plan": 1, "/models/{org}/{name}": 1, "unmatched": 1}
    assert "gemma" not in text
    assert "dryserve_candidates_total" in text


def test_a_request_keeps_its_id(client: TestClient) -> None:
    assert client.get("/livez", headers={"X-Request-ID": "abc-1"}).headers["x-request-id"] == "abc-1"


@pytest.mark.parametrize("given", ["", "a b", "x" * 65, "<script>"])
def test_an_id_that_is_none_is_replaced(given: str, client: TestClient) -> None:
    assert re.fullmatch(
        r"[0-9a-f-]{36}", client.get("/livez", headers={"X-Request-ID": given}).headers["x-request-id"]
    )


def test_no_web_page_may_ask_by_default(client: TestClient) -> None:
    reply = client.get("/livez", headers={"Origin": "https://page.test"})
    assert "access-control-allow-origin" not in reply.headers


def test_a_named_origin_may_ask(services: Services) -> None:
    app: FastAPI = create_app(services, AppOptions(cors_origins=("https://page.test",)))
    with TestClient(app) as client:
        allowed = client.get("/livez", headers={"Origin": "https://page.test"})
        other = client.get("/livez", headers={"Origin": "https://other.test"})
    assert allowed.headers["access-control-allow-origin"] == "https://page.test"
    assert "access-control-allow-credentials" not in allowed.headers
    assert "access-control-allow-origin" not in other.headers


@pytest.mark.parametrize(
    "header",
    # Fetch, section 2.2.2: none of them is safelisted, so that a browser asks before it sends them.
    [
        *("If-None-Match", "Last-Event-ID", "Authorization"),
        *("Idempotency-Key", "Content-Type", "X-Request-ID"),
        # What a page's own OpenTelemetry adds to its requests (W3C Trace Context, W3C Baggage).
        *("traceparent", "tracestate", "baggage"),
    ],
)
def test_a_page_may_send_the_headers_that_a_client_needs(header: str, services: Services) -> None:
    app: FastAPI = create_app(services, AppOptions(cors_origins=("https://page.test",)))
    asked = {
        "Origin": "https://page.test",
        "Access-Control-Request-Method": "GET",
        "Access-Control-Request-Headers": header.lower(),
    }
    with TestClient(app) as client:
        assert client.options("/v1/gpus", headers=asked).status_code == 200
        other = {**asked, "Origin": "https://other.test"}
        assert client.options("/v1/gpus", headers=other).status_code == 400


def test_a_page_may_read_what_the_service_sends(services: Services) -> None:
    """Every header of an answer is exposed, or is one that a page may read anyway (Fetch, section 2.2.2)."""
    app: FastAPI = create_app(services, AppOptions(cors_origins=("https://page.test",)))
    safelisted = {"cache-control", "content-language", "content-length", "content-type", "expires"}
    # Of the transfer itself, which the browser undoes before a page sees the answer.
    transfer = {"content-encoding", "transfer-encoding", "vary"}
    page = {"Origin": "https://page.test"}
    with TestClient(app) as client:
        replies = [
            client.get("/v1/gpus", headers=page),
            client.delete("/v1/gpus", headers=page),
            client.get("/v1/probes", headers={**page, "X-Forwarded-For": "192.0.2.1"}),
        ]
        tag = {"If-None-Match": replies[0].headers["etag"]}
        replies.append(client.get("/v1/gpus", headers={**page, **tag}))
    assert [each.status_code for each in replies] == [200, 405, 401, 304]
    for reply in replies:
        assert reply.headers["access-control-allow-origin"] == "https://page.test"
        exposed = {name.strip().lower() for name in reply.headers["access-control-expose-headers"].split(",")}
        sent = {name for name in reply.headers if not name.startswith("access-control-")}
        assert sent <= exposed | safelisted | transfer
