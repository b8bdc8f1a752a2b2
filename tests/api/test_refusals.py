"""Connections that are refused: what the caller gets, what is counted, what is logged."""

import asyncio
import json

import httpx2
import pytest
import uvicorn
from fastapi import FastAPI
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient
from structlog.testing import capture_logs
from uvicorn.server import ServerState

from service.api.app import create_app
from service.api.app_options import AppOptions
from service.api.connections.connection_limits import OPERATORS_CONNECTIONS, ConnectionLimits
from service.api.connections.server_protocol import protocol_of
from service.api.metrics import Metrics
from service.api.refusals import LOG_SECONDS, ConnectionRefusal, RefusalLog
from service.bootstrap import build_app, build_services
from service.hub.errors import HubUnreachable, ModelNotFound
from service.logs import configure_service_logs
from service.probes.job_spec import Inventory, JobSpec, ProbeKind
from service.probes.offer import Offer
from service.settings import Settings
from service.store.database import Database
from tests.api.test_connections import closed, engine_config, opened
from tests.hub.fake_hub import MODEL, hub_with_model


def values(app: FastAPI, name: str) -> dict[tuple[str, ...], float]:
    """Return the samples of a metric by the values of its labels."""
    families = text_string_to_metric_families(TestClient(app).get("/metrics").text)
    samples = (sample for family in families for sample in family.samples)
    return {tuple(each.labels.values()): each.value for each in samples if each.name == name}


class RecordingTransport(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self) -> None:
        super().__init__({"peername": ("10.0.0.9", 4711), "sockname": ("10.0.0.1", 8000)})
        self.written = b""
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += bytes(data)

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed


async def test_a_connection_beyond_every_limit_gets_a_problem(app: FastAPI) -> None:
    """It takes more busy connections than operators have places, so the server's state is made here."""
    counted: list[ConnectionRefusal] = []
    kind = protocol_of(ConnectionLimits(2), counted.append)
    config = uvicorn.Config(app, http=kind, ws="none", lifespan="off", log_config=None)
    config.load()
    state = ServerState()
    state.connections.update(object() for _ in range(2 + OPERATORS_CONNECTIONS))  # type: ignore[misc]
    transport = RecordingTransport()
    kind(config, state, {}).connection_made(transport)
    head, _, body = transport.written.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 503 ")
    assert b"Content-Type: application/problem+json" in head
    assert b"Retry-After: 5" in head
    assert f"Content-Length: {len(body)}".encode() in head
    assert json.loads(body)["type"].endswith("/too-many-connections")
    assert transport.closed
    assert counted == [ConnectionRefusal.TOO_MANY]


async def test_slow_and_displaced_connections_are_counted(app: FastAPI) -> None:
    counted: list[ConnectionRefusal] = []
    async with engine_config(app, ConnectionLimits(2, head=0.4, body=0.4), counted.append) as port:
        first = [await opened(port) for _ in range(2)]
        await asyncio.sleep(0.05)
        half = b"POST /plan HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{"
        first.append(await opened(port, half))
        await asyncio.sleep(1)
        assert sorted(counted) == [
            ConnectionRefusal.DISPLACED,
            ConnectionRefusal.SLOW_BODY,
            ConnectionRefusal.SLOW_HEAD,
        ]
        *silent, slow = first
        for each in silent:
            assert await closed(each)
        assert not await closed(slow), "a request that has begun is answered"


def test_refusals_are_logged_once_a_period() -> None:
    now = 0.0
    log = RefusalLog(clock=lambda: now)
    with capture_logs() as lines:
        for _ in range(1000):
            log(ConnectionRefusal.TOO_MANY)
        now = LOG_SECONDS + 1
        log(ConnectionRefusal.SLOW_HEAD)
    assert [{name: line[name] for name in line if name in set(ConnectionRefusal)} for line in lines] == [
        {"too_many": 1},
        {"too_many": 999, "slow_head": 1},
    ]


def test_refusals_are_in_the_metrics(app: FastAPI) -> None:
    metrics: Metrics = app.state.metrics
    before = values(app, "dryserve_connections_refused_total")
    assert {name for (name,) in before} == {each.value for each in ConnectionRefusal}
    metrics.count_refusal(ConnectionRefusal.SLOW_BODY)
    after = values(app, "dryserve_connections_refused_total")
    assert after["slow_body",] - before["slow_body",] == 1


async def test_the_queue_is_in_the_metrics(database_url: str) -> None:
    database = Database(database_url)
    nobody = httpx2.AsyncClient(transport=httpx2.MockTransport(lambda _: httpx2.Response(500)))
    services = build_services(Settings(HF_HUB_OFFLINE=True), nobody, database)
    app = create_app(services)
    jobs = services.probes.jobs
    assert values(app, "dryserve_database_usable") == {(): 1}
    for _ in range(3):
        await jobs.add(JobSpec(Inventory()), None, "d")
    await jobs.lease(Offer("node-1", (ProbeKind.INVENTORY,), gpus=1))
    await jobs.lease(Offer("node-2", ()))
    await asyncio.sleep(0.05)
    await jobs.count()
    by_state = values(app, "dryserve_probe_jobs")
    assert by_state["queued",] == 2
    assert by_state["leased",] == 1
    assert sum(by_state.values()) == 3
    assert 0 < values(app, "dryserve_probe_oldest_queued_seconds")[()] < 60
    assert values(app, "dryserve_workers_seen") == {(): 2}
    pool = 0 if database.embedded else 10
    assert values(app, "dryserve_database_pool_connections_max") == {(): pool}
    await database.close()


async def test_an_unusable_database_is_in_the_metrics() -> None:
    database = Database("postgresql://test@127.0.0.1:1/none")
    nobody = httpx2.AsyncClient(transport=httpx2.MockTransport(lambda _: httpx2.Response(500)))
    app = create_app(
        services := build_services(Settings(HF_HUB_OFFLINE=True), nobody, database),
        AppOptions(open_reads=True),
    )
    transport = httpx2.ASGITransport(app=app, client=("127.0.0.1", 4711))
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        answer = await client.get("/probes")
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert "127.0.0.1" not in answer.text
    assert services.probes.database.condition == "unavailable"
    assert values(app, "dryserve_database_usable") == {(): 0}
    health = TestClient(app).get("/readyz")
    assert (health.status_code, health.json()["database"]) == (200, "unavailable")


async def test_the_hubs_traffic_is_in_the_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(request.url.path)
        if "gone" in request.url.path:
            raise httpx2.ConnectError("refused")
        return httpx2.Response(404)

    http = httpx2.AsyncClient(transport=httpx2.MockTransport(answer))
    monkeypatch.setattr("service.hub.transport.transfer.hub_http", lambda: http)
    app = build_app(Settings(HF_ENDPOINT="https://hub.test"))
    models = app.state.services.models
    for model, error in (("acme/absent", ModelNotFound), ("acme/gone", HubUnreachable)):
        with pytest.raises(error):
            await models.resolve(model)
    await models.close()
    failed = sum("gone" in path for path in asked)
    assert 0 < failed < len(asked)
    assert values(app, "dryserve_hub_requests_total") == {(): len(asked)}
    assert values(app, "dryserve_hub_responses_total") == {("404",): len(asked) - failed}


async def test_look_ups_in_the_cache_are_in_the_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    hub = hub_with_model()
    http = httpx2.AsyncClient(transport=httpx2.MockTransport(hub.answer))
    monkeypatch.setattr("service.hub.transport.transfer.hub_http", lambda: http)
    app = build_app(Settings(HF_ENDPOINT="https://hub.test"))
    for _ in range(2):
        await app.state.services.models.resolve(MODEL)
    found = values(app, "dryserve_hub_cache_lookups_total")
    # The first time nothing is stored; the second time every file is.
    assert found["miss",] >= 1
    assert found["hit",] >= 1
    await app.state.services.models.close()


async def test_a_caller_who_leaves_in_the_middle_of_a_body_is_no_failure(app: FastAPI) -> None:
    async def receive() -> dict[str, str]:
        return {"type": "http.disconnect"}

    sent: list[object] = []

    async def send(message: object) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "path": "/plan",
        "query_string": b"",
        "headers": [(b"content-type", b"application/json"), (b"content-length", b"10")],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 2),
    }
    with capture_logs() as lines:
        await app(scope, receive, send)
    assert not sent
    assert {line["log_level"] for line in lines} <= {"info"}


def test_advice_for_one_small_card_names_one(client: TestClient) -> None:
    """Gemma 3 27B: 27.4 billion parameters take 51 GiB, an RTX 4090 has 23.5."""
    asked = {"model": "google/gemma-3-27b-it", "gpus": ["rtx-4090-24gb:1"]}
    near = client.post("/v1/plan", json=asked).json()["plans"][0]["nearest_refused"]
    assert any("ISTA-DASLab/gemma-3-27b-it-GPTQ-4b-128g" in note for note in near["error"]["notes"])


def test_logging_that_is_configured_again_reaches_loggers_that_were_used() -> None:
    """A logger keeps the steps of its first use (structlog, ``cache_logger_on_first_use``)."""
    configure_service_logs()
    RefusalLog("first")("reason")
    configure_service_logs()
    with capture_logs() as lines:
        RefusalLog("second")("reason")
    assert [line["event"] for line in lines] == ["second"]
