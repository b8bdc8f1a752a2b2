"""Sums of the metrics of several processes that serve one port.

Samples travel as ``[name, labels, value]``. Counters and histograms add up, and so do gauges of what each
process has by itself. Gauges of what all processes share, such as the queue in the database, do not.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.registry import Collector

Samples: TypeAlias = Sequence[tuple[str, Mapping[str, str], float]]

CUMULATIVE: Final = ("_total", "_bucket", "_count", "_sum")
"""Ends of the names of samples that only grow: they stay when their process has ended."""
LONGEST_LINE: Final = 16 << 20
"""Bytes of a document that travels between processes."""
SHARED: Final = (
    "dryserve_probe_jobs",
    "dryserve_probe_oldest_queued_seconds",
    "dryserve_workers_seen",
    "dryserve_build_info",
)
"""Gauges that every process reads from the same place: the largest value is taken."""
LEAST: Final = ("dryserve_database_usable", "process_start_time_seconds")
"""Gauges of which the least value is taken."""


def samples_of(registry: CollectorRegistry) -> Samples:
    """Return all samples of a process."""
    return [
        (sample.name, sample.labels, float(sample.value))
        for metric in registry.collect()
        for sample in metric.samples
    ]


def cumulative(samples: Samples) -> Samples:
    """Return the samples that count on when their process has ended."""
    return [sample for sample in samples if sample[0].endswith(CUMULATIVE)]


def added(parts: Iterable[Samples]) -> Samples:
    """Return the samples of several processes as those of one."""
    found: dict[tuple[str, tuple[tuple[str, str], ...]], tuple[Mapping[str, str], float]] = {}
    for name, labels, value in (sample for part in parts for sample in part):
        key = (name, tuple(sorted(labels.items())))
        if key not in found:
            found[key] = (labels, value)
        else:
            found[key] = (labels, _combined(name, found[key][1], value))
    return [(name, labels, value) for (name, _), (labels, value) in found.items()]


def _combined(name: str, one: float, other: float) -> float:
    if name in SHARED:
        return max(one, other)
    return min(one, other) if name in LEAST or name.endswith("_created") else one + other


def exposition(registry: CollectorRegistry, others: Samples) -> bytes:
    """Return the metrics of a process with those of others added, in Prometheus' text format."""
    return generate_latest(_Summed(registry, others)) if others else generate_latest(registry)


class _Summed(CollectorRegistry):
    """The metrics of a registry, with the samples of other processes."""

    def __init__(self, own: CollectorRegistry, others: Samples) -> None:
        super().__init__()
        self.register(_Collected(own, others))


class _Collected(Collector):
    def __init__(self, own: CollectorRegistry, others: Samples) -> None:
        self._own = own
        self._others = others

    def collect(self) -> Iterable[Metric]:
        """Yield each metric of the registry with the sum of its samples."""
        by_name: dict[str, list[Any]] = {}
        for sample in added([samples_of(self._own), self._others]):
            by_name.setdefault(sample[0], []).append(sample)
        for metric in self._own.collect():
            summed = Metric(metric.name, metric.documentation, metric.type)
            names = dict.fromkeys([each.name for each in metric.samples] + _names_of(metric))
            for name in names:
                for _, labels, value in by_name.get(name, ()):
                    summed.add_sample(name, dict(labels), value)
            yield summed


def _names_of(metric: Metric) -> list[str]:
    """Return the names of a metric's samples, which this process may lack where others have them."""
    ends = {"counter": ("_total", "_created"), "histogram": ("_bucket", "_count", "_sum", "_created")}
    return [f"{metric.name}{end}" for end in ends.get(metric.type, ("",))]
