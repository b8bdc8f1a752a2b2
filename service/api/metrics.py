"""Metrics for Prometheus, in its base units."""

import platform
from collections.abc import Awaitable, Callable
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, ProcessCollector

from service import __version__
from service.api.lane import Lane
from service.api.metrics_sum import Samples, exposition
from service.api.refusals import ConnectionRefusal
from service.application.services import Probes
from service.probes.job_state import State

REQUEST_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
"""OpenTelemetry's semantic conventions, http.server.request.duration."""
METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"})
REQUEST_LABELS: Final = ("http_request_method", "http_route", "http_response_status_code")


class Metrics:
    """Metrics of one application. No label holds text that a caller sent."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.siblings: Callable[[], Awaitable[Samples]] | None = None
        """Returns the sum of the metrics of the other processes that serve the same port."""
        self._requests = Histogram(
            "http_server_request_duration_seconds",
            "Duration of HTTP requests",
            REQUEST_LABELS,
            buckets=REQUEST_BUCKETS,
            registry=self.registry,
        )
        self._durations: dict[tuple[str, str, str], Histogram] = {}
        """The histograms by their labels: to look one up there takes longer than to count."""
        self.active_requests = Gauge(
            "http_server_active_requests", "Requests in progress", registry=self.registry
        )
        self._candidates = Counter(
            "dryserve_candidates", "Candidates planned, by verdict", ("verdict",), registry=self.registry
        )
        self._verdicts: dict[str, Counter] = {}
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
        self._refused = Counter(
            "dryserve_connections_refused",
            "Connections closed or refused, by reason",
            ("reason",),
            registry=self.registry,
        )
        for reason in ConnectionRefusal:
            self._refused.labels(reason.value)
        self._hub_requests = Counter(
            "dryserve_hub_requests", "Requests sent to the Hub", registry=self.registry
        )
        self._hub_responses = Counter(
            "dryserve_hub_responses",
            "Responses of the Hub, by status; a request without one failed",
            ("http_response_status_code",),
            registry=self.registry,
        )
        self._cache_lookups = Counter(
            "dryserve_hub_cache_lookups",
            "Look-ups in the cache of the Hub's files, by whether they were found",
            ("result",),
            registry=self.registry,
        )
        build = Info("dryserve_build", "What is running", registry=self.registry)
        build.info({"version": __version__, "python": platform.python_version()})
        ProcessCollector(registry=self.registry)

    async def exposition(self) -> bytes:
        """Return all metrics in Prometheus' text format, with those of the other processes added."""
        return exposition(self.registry, [] if self.siblings is None else await self.siblings())

    def observe_request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one request."""
        key = (method if method in METHODS else "_OTHER", route, str(status))
        child = self._durations.get(key)
        if child is None:
            child = self._durations[key] = self._requests.labels(*key)
        child.observe(seconds)

    def watch_lane(self, size: str, lane: Lane) -> None:
        """Report how much work waits in a lane, and how much runs."""
        self._waiting.labels(size).set_function(lambda: lane.waiting)
        self._running.labels(size).set_function(lambda: int(lane.busy))

    def watch_probes(self, probes: Probes) -> None:
        """Report the queue of probes, its workers and its database. No query runs for a scrape."""
        jobs, database = probes.stores.job_counts, probes.database

        def gauge(name: str, words: str, value: Callable[[], float], **labels: str) -> None:
            if name not in gauges:
                gauges[name] = Gauge(name, words, tuple(labels), registry=self.registry)
            (gauges[name].labels(**labels) if labels else gauges[name]).set_function(value)

        gauges: dict[str, Gauge] = {}
        for state in State:
            gauge(
                "dryserve_probe_jobs",
                "Probe jobs by state, as of the last round of maintenance",
                lambda state=state: jobs.census.by_state.get(state, 0),  # type: ignore[misc]
                state=state.value,
            )
        gauge(
            "dryserve_probe_oldest_queued_seconds",
            "Age of the oldest queued probe job, as of the last round of maintenance; 0 without one",
            lambda: jobs.census.oldest_queued_seconds,
        )
        gauge(
            "dryserve_workers_seen",
            "Workers that asked this replica for a job in the last five minutes",
            jobs.workers_seen,
        )
        gauge(
            "dryserve_database_usable",
            "1 if the last use of the database succeeded or there was none, 0 if it failed",
            lambda: int(database.fault is None),
        )
        gauge(
            "dryserve_database_pool_connections_in_use",
            "Connections to PostgreSQL in use",
            lambda: database.pool_in_use,
        )
        gauge(
            "dryserve_database_pool_connections_max",
            "Most connections to PostgreSQL; 0 with SQLite",
            lambda: database.pool_size,
        )
        lost = Counter(
            "dryserve_probe_leases_lost", "Leases that ended without a heartbeat", registry=self.registry
        )
        jobs.on_lease_lost.append(lost.inc)

    def count_refusal(self, reason: ConnectionRefusal) -> None:
        """Count a connection that was closed or refused."""
        self._refused.labels(reason.value).inc()

    def count_cache_lookup(self, found: bool) -> None:
        """Count a look-up in the cache of the Hub's files."""
        self._cache_lookups.labels("hit" if found else "miss").inc()

    def count_hub_request(self) -> None:
        """Count a request to the Hub."""
        self._hub_requests.inc()

    def count_hub_response(self, status: int) -> None:
        """Count a response of the Hub."""
        self._hub_responses.labels(str(status)).inc()

    def count_candidates(self, verdict: str, number: int) -> None:
        """Count candidates by their verdict."""
        child = self._verdicts.get(verdict)
        if child is None:
            child = self._verdicts[verdict] = self._candidates.labels(verdict)
        child.inc(number)
