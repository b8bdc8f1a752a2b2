"""The metrics of several processes as those of one."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.parser import text_string_to_metric_families

from service.api.metrics_sum import Samples, added, cumulative, exposition, samples_of


def registry(requests: int, waiting: int, jobs: int) -> CollectorRegistry:
    made = CollectorRegistry()
    counter = Counter("asked", "x", ("route",), registry=made)
    if requests:
        counter.labels("/plan").inc(requests)
    histogram = Histogram("lasted", "x", buckets=(1, 2), registry=made)
    for _ in range(requests):
        histogram.observe(1.5)
    Gauge("waiting", "x", registry=made).set(waiting)
    Gauge("dryserve_probe_jobs", "x", registry=made).set(jobs)
    Gauge("dryserve_database_usable", "x", registry=made).set(int(jobs > 0))
    return made


def values(text: bytes) -> dict[tuple[str, ...], float]:
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
        if not sample.name.endswith("_created")
    }


def test_counters_histograms_and_own_gauges_add_up_and_shared_ones_do_not() -> None:
    found = values(exposition(registry(2, 3, 7), samples_of(registry(5, 1, 0))))
    assert found["asked_total", "/plan"] == 7
    assert found["lasted_count",] == 7
    assert found["lasted_sum",] == 10.5
    assert (found["lasted_bucket", "1.0"], found["lasted_bucket", "2.0"]) == (0, 7)
    assert found["waiting",] == 4
    assert found["dryserve_probe_jobs",] == 7
    assert found["dryserve_database_usable",] == 0


def test_what_only_another_process_counted_is_there() -> None:
    found = values(exposition(registry(0, 0, 0), samples_of(registry(4, 0, 0))))
    assert found["asked_total", "/plan"] == 4


def test_without_others_the_metrics_are_its_own() -> None:
    own = registry(3, 1, 2)
    assert values(exposition(own, []))["asked_total", "/plan"] == 3


def test_an_ended_process_leaves_its_counters_and_no_gauges() -> None:
    left = cumulative(samples_of(registry(3, 9, 9)))
    assert {name for name, _, _ in left} == {"asked_total", "lasted_bucket", "lasted_count", "lasted_sum"}
    total: Samples = added([left, left])
    assert next(value for name, _, value in total if name == "asked_total") == 6
