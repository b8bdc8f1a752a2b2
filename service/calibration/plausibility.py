"""Whether the numbers of a measurement can be true together; what cannot be is kept, and teaches nothing."""

from typing import Final

from service.calibration.measurement import Measurement, RankReadings, TermReading
from service.units import MIB, gib_text

SLACK: Final = 64 * MIB
"""Logs round five terms to two decimals of a GiB; what libraries take can shrink a little while they load."""


def implausible(measurement: Measurement) -> str | None:
    """Say why a measurement's numbers cannot be; ``None`` where they can."""
    total, rank = measurement.device.total_bytes, measurement.fullest
    if not 0 < measurement.utilization <= 1:
        return f"it asked for {measurement.utilization} of the device"
    if rank.weights is not None and rank.weights.bytes <= 0:
        return f"it loaded {gib_text(rank.weights.bytes)} GiB of weights"
    if rank.available_kv is not None and rank.available_kv.bytes <= 0:
        return f"it had {gib_text(rank.available_kv.bytes)} GiB for the cache"
    terms = [reading.bytes for reading in _terms(rank) if reading is not None]
    if any(size < -SLACK for size in terms):
        return "a term of it is less than nothing"
    granted = measurement.utilization * total
    if sum(terms) > granted + SLACK:
        return f"it took {gib_text(sum(terms))} GiB of the {gib_text(round(granted))} that it was granted"
    return None


def _terms(rank: RankReadings) -> tuple[TermReading | None, ...]:
    return (rank.weights, rank.activation, rank.non_torch, rank.graphs_estimated, rank.available_kv)
