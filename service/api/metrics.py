"""Metrics for Prometheus, in its base units."""

import platform
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, ProcessCollector

from service import __version__
from service.api.work_lanes import Lane

REQUEST_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
"""OpenTelemetry's semantic conventions, http.server.request.duration."""
METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"})
REQUEST_LABELS: Final = ("http_request_method", "http_route", "http_response_status_code")


class Metrics:
    """Metrics of one application. No label holds text that a caller sent."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Histogram(
            "http_server_request_duration_seconds",
            "Duration of HTTP requests",
            REQUEST_LABELS,
            buckets=REQUEST_BUCKETS,
            registry=self.registry,
        )
        self.active_requests = Gauge(
            "http_server_active_requests", "Requests in progress", registry=self.registry
        )
        self._candidates = Counter(
            "dryserve_candidates", "Candidates planned, by verdict", ("verdict",), registry=self.registry
        )
        self._waiting = Gauge(
            "dryserve_requests_waiting",
            "Requests whose CPU-bound work waits",
            ("size",),
            registry=self.registry,
        )
        self._running = Gauge(
            "dryserve_requests_running",
            "Requests whose CPU-bound work is running",
            ("size",),
            registry=self.registry,
        )
        build = Info("dryserve_build", "What is running", registry=self.registry)
        build.info({"version": __version__, "python": platform.python_version()})
        ProcessCollector(registry=self.registry)

    def observe_request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one request."""
        known = method if method in METHODS else "_OTHER"
        self._requests.labels(known, route, str(status)).observe(seconds)

    def watch_lane(self, size: str, lane: Lane) -> None:
        """Report how much work waits in a lane, and how much runs."""
        self._waiting.labels(size).set_function(lambda: lane.waiting)
        self._running.labels(size).set_function(lambda: int(lane.busy))

    def count_candidates(self, verdict: str, number: int) -> None:
        """Count candidates by their verdict."""
        self._candidates.labels(verdict).inc(number)
