"""Ids of traces and requests in the log, and the spans of a request."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, MutableMapping
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import pytest
import structlog
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from starlette.testclient import TestClient

from service.api.app import create_app
from service.api.app_options import AppOptions
from service.api.tracing import ExtraMissing, Tracing, configured_tracing, trace_id_of
from service.application.services import Services
from tests.bench.load import JSON
from tests.bench.server import free_port, wait_until_ready

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"
"""The example of W3C Trace Context."""
BODY = {"model": "Qwen/Qwen3-8B", "gpus": ["h100-sxm-80gb"], "include": ["candidates"]}


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def traced(services: Services, exporter: InMemorySpanExporter) -> Iterator[TestClient]:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    options = AppOptions(tracing=Tracing(provider.get_tracer("test")))
    with TestClient(create_app(services, options)) as client:
        yield client


def test_a_request_is_a_span_below_its_caller_with_a_span_for_each_step(
    traced: TestClient, exporter: InMemorySpanExporter
) -> None:
    assert traced.post("/v1/plan", json=BODY, headers={"traceparent": PARENT}).status_code == 200
    spans = {span.name: span for span in exporter.get_finished_spans()}
    assert set(spans) == {"POST /plan", "resolve", "plan", "write"}
    request = spans["POST /plan"]
    assert request.parent is not None
    assert (f"{request.context.trace_id:032x}", f"{request.parent.span_id:016x}") == (TRACE, SPAN)
    assert request.attributes is not None
    assert dict(request.attributes) == {
        "http.request.method": "POST",
        "http.route": "/plan",
        "http.response.status_code": 200,
    }
    for name in ("resolve", "plan", "write"):
        parent = spans[name].parent
        assert parent is not None
        assert parent.span_id == request.context.span_id


def test_probes_make_no_spans(traced: TestClient, exporter: InMemorySpanExporter) -> None:
    assert traced.get("/livez").status_code == 200
    assert exporter.get_finished_spans() == ()


@pytest.mark.parametrize(
    ("header", "found"),
    [
        (PARENT, TRACE),
        (f"cc-{TRACE}-{SPAN}-01-what-the-future-brings", TRACE),
        (f"00-{'0' * 32}-{SPAN}-01", None),
        (f"00-{TRACE.upper()}-{SPAN}-01", None),
        (f"00-{TRACE}-{SPAN}", None),
        ("", None),
        ('{"event": "forged"}', None),
    ],
)
def test_the_id_of_a_trace_is_read(header: str, found: str | None) -> None:
    assert trace_id_of({"type": "http", "headers": [(b"traceparent", header.encode())]}) == found


def test_every_line_of_a_request_has_its_ids(services: Services) -> None:
    seen: list[dict[str, object]] = []

    def note(_: object, __: str, event: MutableMapping[str, Any]) -> Mapping[str, Any]:
        seen.append(dict(event))
        raise structlog.DropEvent

    app = create_app(services)

    @app.get("/lines")
    def lines() -> str:
        structlog.get_logger("elsewhere").info("within")
        return "x"

    before = structlog.get_config()
    structlog.configure(processors=[structlog.contextvars.merge_contextvars, note])
    try:
        with TestClient(app) as client:
            client.get("/lines", headers={"X-Request-ID": "mine", "traceparent": PARENT})
    finally:
        structlog.configure(**before)
    within = next(each for each in seen if each["event"] == "within")
    assert (within["request_id"], within["trace_id"]) == ("mine", TRACE)


def test_without_the_extra_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.api.tracing.find_spec", lambda _: None)
    with pytest.raises(ExtraMissing, match=r"dryserve\[otel\]"):
        configured_tracing("http://collector:4318")
    assert configured_tracing(None) is not None


class Collector(BaseHTTPRequestHandler):
    """Receives spans by OTLP over HTTP, as a collector does; OpenTelemetry's own messages decode them."""

    received: ClassVar[list[ExportTraceServiceRequest]] = []

    def do_POST(self) -> None:
        assert self.path == "/v1/traces"
        assert self.headers["Content-Type"] == "application/x-protobuf"
        assert "Content-Encoding" not in self.headers
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.received.append(ExportTraceServiceRequest.FromString(body))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *args: object) -> None:
        del args


@pytest.fixture
def collector() -> Iterator[int]:
    Collector.received = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Collector) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


@pytest.mark.slow
def test_a_collector_receives_the_spans_of_a_service_that_is_stopped_at_once(collector: int) -> None:
    """What was not yet sent when the service ends is sent then."""
    port = free_port()
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    environment["OTEL_EXPORTER_OTLP_ENDPOINT"] = f"http://127.0.0.1:{collector}"
    command = [sys.executable, "-m", "service", "serve", "--port", str(port)]
    with subprocess.Popen(  # noqa: S603 - our own
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            wait_until_ready(port)
            connection = HTTPConnection("127.0.0.1", port, timeout=30)
            headers = {**JSON, "traceparent": PARENT, "X-Request-ID": "mine"}
            connection.request("POST", "/plan", json.dumps(BODY), headers)
            assert connection.getresponse().read()
            connection.close()
            process.send_signal(signal.SIGTERM)
            _, log = process.communicate(timeout=20)
        finally:
            process.kill()
    (resource,) = [each for batch in Collector.received for each in batch.resource_spans]
    attributes = {each.key: each.value.string_value for each in resource.resource.attributes}
    assert attributes["service.name"] == "dryserve"
    spans = {span.name: span for scope in resource.scope_spans for span in scope.spans}
    assert spans.keys() == {"POST /plan", "resolve", "plan", "write"}
    assert {span.trace_id.hex() for span in spans.values()} == {TRACE}
    assert spans["POST /plan"].parent_span_id.hex() == SPAN
    assert all(span.end_time_unix_nano >= span.start_time_unix_nano for span in spans.values())
    lines = [json.loads(line) for line in log.splitlines()]
    (request,) = (line for line in lines if line["event"] == "request")
    assert (request["request_id"], request["trace_id"]) == ("mine", TRACE)


def test_a_collector_that_does_not_answer_keeps_the_service_from_no_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("service.api.tracing.LAST_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        tracing = configured_tracing(f"http://127.0.0.1:{silent.getsockname()[1]}")
        with tracing.step("plan"):
            pass
        started = time.monotonic()
        tracing.close()
        assert time.monotonic() - started < 3
