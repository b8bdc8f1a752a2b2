"""A logged number beside a planned interval."""

from dataclasses import dataclass
from math import ceil, floor
from typing import Final

from service.explanation.explanation_types import Agreement, Finding
from service.memory.budget import Estimate
from service.startup_log.log import LogReading
from service.units import GIB

HALF_DIGIT: Final = 0.005
"""Logs round to two digits."""


@dataclass(frozen=True, slots=True)
class Interval:
    """What a plan allows a logged number to be."""

    low: float
    value: float
    high: float
    exact: bool
    """It follows from what is known, rather than from an estimate."""

    @classmethod
    def of(cls, estimate: Estimate) -> "Interval":
        """Return an estimate in GiB."""
        exact = estimate.low == estimate.high
        return cls(estimate.low / GIB, estimate.bytes / GIB, estimate.high / GIB, exact)


def bytes_within(gib: float) -> tuple[int, int, int]:
    """Return the least, the middle and the most that a number of GiB with two digits can stand for."""
    return ceil((gib - HALF_DIGIT) * GIB), round(gib * GIB), floor((gib + HALF_DIGIT) * GIB)


def compare(reading: LogReading, planned: Interval, why: str, slack: float = HALF_DIGIT) -> Finding:
    """Say how a logged number compares with what the plan allows; ``slack`` is half of its last digit."""
    logged = reading.value if isinstance(reading.value, float) else float("nan")
    inside = planned.low - slack <= logged <= planned.high + slack
    near = abs(logged - planned.value) <= slack
    agreement = Agreement.DIFFERS
    if inside:
        agreement = Agreement.AGREES if planned.exact or near else Agreement.WITHIN
    return Finding(
        reading.name,
        reading.line,
        logged,
        _rounded(planned.value),
        _rounded(planned.low),
        _rounded(planned.high),
        agreement,
        why,
    )


def compare_words(reading: LogReading, planned: str, why: str, *, same: bool) -> Finding:
    """Say whether a logged word is the planned one."""
    agreement = Agreement.AGREES if same else Agreement.DIFFERS
    return Finding(reading.name, reading.line, reading.value, planned, None, None, agreement, why)


def not_compared(reading: LogReading, why: str) -> Finding:
    """Say why a logged value has nothing to compare it with."""
    return Finding(reading.name, reading.line, reading.value, None, None, None, Agreement.NOT_COMPARED, why)


def _rounded(value: float) -> float:
    return round(value, 4)
