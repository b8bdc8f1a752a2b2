"""Traces for OpenTelemetry, where the extra `dryserve[otel]` is installed and an exporter is configured.

Without it a step costs nothing. The id of a caller's trace is in the log either way.
"""

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib.util import find_spec
from typing import Any, Final

from starlette.datastructures import Headers
from starlette.types import Scope

from service import __version__
from service.api.raw_headers import header

TRACEPARENT: Final = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-.*)?", re.ASCII)
"""W3C Trace Context, level 2, section 3.2: version, trace id, id of the caller's span, flags."""
TRACE_HEADERS: Final = ("traceparent", "tracestate", "baggage")
"""What a caller's tracing adds to its requests (W3C Trace Context, W3C Baggage)."""
NO_TRACE: Final = "0" * 32
NAME: Final = "dryserve"
NOTHING: Final = nullcontext()
"""In place of a span, where nothing is traced."""
LAST_SECONDS: Final = 3
"""Most time for sending the last spans when the service ends; a collector may not answer."""


def trace_id_of(scope: Scope) -> str | None:
    """Return the id of the trace that a request belongs to, if its caller says so."""
    given = header(scope, b"traceparent")
    found = TRACEPARENT.fullmatch(given) if given else None
    return None if found is None or found[1] == NO_TRACE else found[1]


class ExtraMissing(ValueError):
    """Traces are to be sent, and the extra that sends them is not installed."""


class Tracing:
    """Makes spans: one for each request, and one for each of its steps."""

    def __init__(
        self,
        tracer: Any = None,  # noqa: ANN401 - a library that may not be installed
        send_rest: Callable[[], None] | None = None,
    ) -> None:
        """``send_rest``: sends the spans that are not yet sent, and ends the tracer."""
        self._tracer = tracer
        self._send_rest = send_rest

    def request(self, scope: Scope) -> AbstractContextManager[Any]:
        """Make the span of a request, below that of its caller; yields None where nothing is traced."""
        return NOTHING if self._tracer is None else self._span(scope)

    @contextmanager
    def _span(self, scope: Scope) -> Iterator[Any]:
        from opentelemetry import propagate, trace  # noqa: PLC0415 - of the extra

        carrier = {name: value for name, value in Headers(scope=scope).items() if name.startswith("trace")}
        with self._tracer.start_as_current_span(
            scope["method"], context=propagate.extract(carrier), kind=trace.SpanKind.SERVER
        ) as span:
            yield span

    def step(self, name: str) -> AbstractContextManager[Any]:
        """Make the span of a step."""
        if self._tracer is None:
            return NOTHING
        span: AbstractContextManager[Any] = self._tracer.start_as_current_span(name)
        return span

    def close(self) -> None:
        """Send the spans that are not yet sent. The signal that ends a server leaves no later time for it."""
        if self._send_rest is not None:
            sending = threading.Thread(target=self._send_rest, daemon=True)
            sending.start()
            sending.join(LAST_SECONDS)


def describe(span: Any, method: str, route: str, status: int) -> None:  # noqa: ANN401 - as above
    """Name the span of a request as OpenTelemetry's conventions for HTTP servers say."""
    if span is not None:
        span.update_name(f"{method} {route}")
        span.set_attributes(
            {"http.request.method": method, "http.route": route, "http.response.status_code": status}
        )


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # not even its parent
        return False


def configured_tracing(endpoint: str | None) -> Tracing:
    """Return traces that are sent to an endpoint by OTLP over HTTP; none without an endpoint.

    Raises:
        ExtraMissing: the extra is not installed.
    """
    if endpoint is None:
        return Tracing()
    if not all(map(_is_installed, ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http"))):
        raise ExtraMissing("OTEL_EXPORTER_OTLP_ENDPOINT needs the extra: pip install 'dryserve[otel]'")
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

    resource = Resource.create({"service.name": NAME, "service.version": __version__})
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{endpoint.rstrip('/')}/v1/traces")))
    return Tracing(provider.get_tracer(NAME, __version__), provider.shutdown)
