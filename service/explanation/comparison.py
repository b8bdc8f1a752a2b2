"""Compares a logged value with the planned one."""

from dataclasses import dataclass
from math import ceil, floor
from typing import Final

from service.explanation.explanation_types import Agreement, Finding
from service.memory.budget_types import Estimate
from service.startup_log.log import LogReading
from service.units import GIB

HALF_DIGIT: Final = 0.005
"""Logs round to two digits."""


@dataclass(frozen=True, slots=True)
class Interval:
    """The numbers that a plan allows for a logged number."""

    low: float
    value: float
    high: float
    exact: bool
    """It is calculated, not estimated."""

    @classmethod
    def of(cls, estimate: Estimate) -> "Interval":
        """Return an estimate in GiB."""
        exact = estimate.low == estimate.high
        return cls(estimate.low / GIB, estimate.bytes / GIB, estimate.high / GIB, exact)


def bytes_within(gib: float) -> tuple[int, int, int]:
    """Return the least, the middle and the most bytes that a number of GiB with two digits can mean."""
    return ceil((gib - HALF_DIGIT) * GIB), round(gib * GIB), floor((gib + HALF_DIGIT) * GIB)


def compare(reading: LogReading, planned: Interval, why: str, slack: float = HALF_DIGIT) -> Finding:
    """Return how a logged number compares with the planned interval; ``slack`` is half of its last digit."""
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
    """Return whether a logged word is the planned one."""
    agreement = Agreement.AGREES if same else Agreement.DIFFERS
    return Finding(reading.name, reading.line, reading.value, planned, None, None, agreement, why)


def not_compared(reading: LogReading, why: str) -> Finding:
    """Return a finding that says why a logged value is not compared."""
    return Finding(reading.name, reading.line, reading.value, None, None, None, Agreement.NOT_COMPARED, why)


def _rounded(value: float) -> float:
    return round(value, 4)
