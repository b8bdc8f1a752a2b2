"""Probes: jobs for GPU workers as they run, and what they measured beside what was planned."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from service.application.schemas.probes.probe import ProbeAnswer
from service.probes.job_state import State
from service.units import gib_text
from service.web.drawings.probes_drawing import MeasuredPoint, probes_drawing
from service.web.figures import plain

OPEN: Final = frozenset({State.QUEUED, State.LEASED, State.RUNNING})
"""States that change."""
TERMS: Final = {
    "weights": ("weights", "weights"),
    "activation": ("activation", "activation"),
    "non_torch": ("non_torch", "non-torch"),
    "captured_graphs": ("graphs", "graphs"),
    "available_kv": ("available_kv", "kv"),
}
"""Terms of a plan, with their names in a measurement and their colours."""


@dataclass(frozen=True, slots=True)
class ProbeRow:
    """One probe."""

    id: str
    kind: str
    state: str
    words: str
    """What its worker does, what it waits for, or why it ended."""
    model: str
    gpu: str
    release: str
    worker: str
    updated: str
    events: str
    """Address of its events; empty once it has ended."""


@dataclass(frozen=True, slots=True)
class ProbesScreen:
    """Everything that the screen shows."""

    rows: tuple[ProbeRow, ...]
    drawing: Markup
    points: tuple[MeasuredPoint, ...]


def probes_screen(probes: Sequence[ProbeAnswer]) -> ProbesScreen:
    """Return the screen for some probes, the newest first."""
    points = tuple(point for number, each in enumerate(probes, start=1) for point in _points(number, each))
    return ProbesScreen(tuple(map(_row, probes)), probes_drawing(points), points)


def _row(probe: ProbeAnswer) -> ProbeRow:
    detail = "" if probe.result is None else probe.result.detail
    words = next(filter(None, (probe.waiting, probe.reason, detail, probe.phase)), "")
    return ProbeRow(
        id=probe.id,
        kind=probe.kind,
        state=probe.state.value,
        words=plain(words),
        model=plain(probe.question.model or ""),
        gpu=plain(probe.question.gpu or probe.gpu_name or ""),
        release=plain(probe.engine_release or ""),
        worker=plain(probe.worker or ""),
        updated=probe.updated.isoformat(timespec="seconds").replace("+00:00", "Z"),
        events=f"probes/{probe.id}/events" if probe.state in OPEN else "",
    )


def _points(number: int, probe: ProbeAnswer) -> Iterator[MeasuredPoint]:
    """Yield the terms that were planned and measured, of the first rank."""
    planned, result = probe.predicted.memory, probe.result
    if planned is None or result is None or result.measurement is None or not result.measurement.ranks:
        return
    rank = result.measurement.ranks[0]
    for term, (name, css) in TERMS.items():
        measured, estimate = getattr(rank, name), getattr(planned, term)
        if measured is None or measured.bytes <= 0 or estimate.bytes <= 0:
            continue
        low, high = estimate.low, estimate.high
        yield MeasuredPoint(
            probe=number,
            term=term.replace("_", " "),
            css=css,
            planned=estimate.bytes,
            low=estimate.bytes if low is None else low,
            high=estimate.bytes if high is None else high,
            measured=measured.bytes,
            words=f"planned {gib_text(estimate.bytes)} GiB, measured {gib_text(measured.bytes)} GiB",
        )
