"""Checks whether the numbers of a measurement are possible; if not, nothing is learned from it."""

from typing import Final

from service.calibration.measurement import Measurement, RankReadings, TermReading
from service.units import MIB, gib_text

SLACK: Final = 64 * MIB
"""Tolerance in bytes: logs round five terms to two decimals of a GiB, and libraries may free some memory."""


def implausible(measurement: Measurement) -> str | None:
    """Return why a measurement's numbers are impossible; ``None`` if they are possible."""
    total, rank = measurement.device.total_bytes, measurement.fullest
    if not 0 < measurement.utilization <= 1:
        return f"the utilization is {measurement.utilization}, which is not between 0 and 1"
    if rank.weights is not None and rank.weights.bytes <= 0:
        return f"the engine loaded {gib_text(rank.weights.bytes)} GiB of weights"
    if rank.available_kv is not None and rank.available_kv.bytes <= 0:
        return f"the engine had {gib_text(rank.available_kv.bytes)} GiB for the cache"
    terms = [reading.bytes for reading in _terms(rank) if reading is not None]
    if any(size < -SLACK for size in terms):
        return "a memory term is negative"
    requested = measurement.utilization * total
    if sum(terms) > requested + SLACK:
        return (
            f"the terms add up to {gib_text(sum(terms))} GiB, "
            f"but only {gib_text(round(requested))} GiB were requested"
        )
    return None


def _terms(rank: RankReadings) -> tuple[TermReading | None, ...]:
    return (rank.weights, rank.activation, rank.non_torch, rank.graphs_estimated, rank.available_kv)
