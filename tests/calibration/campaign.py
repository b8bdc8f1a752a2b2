"""The logged starts of one lab as measurements: 47 of vLLM 0.19.0 on an H100."""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import asdict
from functools import cache
from typing import Any

from service.calibration.measurement import (
    SECONDS_PER_DAY,
    MeasuredDevice,
    MeasuredModel,
    Measurement,
    RankReadings,
    TermReading,
)
from service.units import GIB
from tests.accuracy import startups_models
from tests.accuracy.startups_models import NoConfig
from tests.accuracy.startups_rows import DATA, _lines, read_rows
from tests.accuracy.startups_told import NotScored, Startup, read_startup

DAY = 20_500
"""The day that we take the lab to have measured on: one day, so that a node counts once."""
H100 = MeasuredDevice("NVIDIA H100 80GB HBM3", "9.0", round(79.19 * GIB))


@cache
def campaign() -> tuple[tuple[Startup, Measurement], ...]:
    """Return the starts whose model's config is at hand, each with its measurement."""
    return tuple(_measurements())


def _measurements() -> Iterator[tuple[Startup, Measurement]]:
    path = DATA / "memory-rows.jsonl.gz"
    for row, raw in zip(read_rows(path), _lines(path), strict=True):
        if not row["id"].startswith("m"):
            continue
        try:
            startup = read_startup(row)
        except (NotScored, NoConfig):
            continue
        yield startup, _measurement(startup, row, raw["measured_gib"])


def _measurement(startup: Startup, row: Any, logged: Any) -> Measurement:  # noqa: ANN401 - rows of JSON
    def reading(name: str) -> TermReading:
        return TermReading(round(logged[name] * GIB), "parsed")

    flags = {name: value for name, value in asdict(startup.flags).items() if value is not None}
    return Measurement(
        node="the lab",
        measured_at=DAY * SECONDS_PER_DAY,
        device=H100,
        release=str(startup.releases[0]),
        flags=flags,
        utilization=startup.flags.gpu_memory_utilization or 0.9,
        model=MeasuredModel(row["model"], config_of(row["model"]), startup.known.model.checkpoint_bytes),
        ranks=(
            RankReadings(
                weights=reading("weights"),
                activation=reading("activation_peak"),
                non_torch=reading("non_torch_increase"),
                # 0.19.0 estimates graphs and does not set them aside.
                graphs_estimated=TermReading(0, "derived"),
                available_kv=reading("available_kv"),
            ),
        ),
    )


def config_of(name: str) -> dict[str, Any]:
    """Return the config by which the startups' own reader reads a model."""
    entry = startups_models._ENTRIES.get(name.lower(), {"config": name})  # noqa: SLF001 - its neighbour
    fetched = startups_models._SNAPSHOT.get(entry["config"])  # noqa: SLF001 - as above
    if fetched is None:
        raise NoConfig(name)
    return deepcopy(startups_models._document(entry, fetched.config))  # noqa: SLF001 - as above
