"""Adds and subtracts terms that are known within an interval."""

from collections.abc import Iterable
from math import sqrt
from typing import Final

from service.memory.budget_types import Basis, Estimate
from service.memory.ranges import MibRange

_LEAST_CERTAIN_LAST: Final = (
    Basis.GIVEN,
    Basis.MEASURED,
    Basis.COMPUTED,
    Basis.CALIBRATED,
    Basis.ASSUMED,
)


def exact(size: int, basis: Basis, source: str) -> Estimate:
    """Return a term without uncertainty."""
    return Estimate(size, size, size, basis, source)


def around(middle: float, low: float, high: float, basis: Basis, source: str) -> Estimate:
    """Return a term with its middle and bounds rounded to whole bytes."""
    size = round(middle)
    return Estimate(size, min(size, round(low)), max(size, round(high)), basis, source)


def from_range(value: MibRange, basis: Basis, source: str) -> Estimate:
    """Return a constant in MiB as a term in bytes."""
    return Estimate(*value.bytes, basis, source)


def scaled(value: MibRange, share: float, basis: Basis, source: str) -> Estimate:
    """Return a share of a constant in MiB as a term in bytes."""
    middle, low, high = (size * share for size in value.bytes)
    return around(middle, low, high, basis, source)


def worst_basis(terms: Iterable[Estimate]) -> Basis:
    """Return the least certain basis of several terms."""
    return max((term.basis for term in terms), key=_LEAST_CERTAIN_LAST.index)


def total(terms: Iterable[Estimate], source: str) -> Estimate:
    """Add independent terms: their deviations add as the root of squares."""
    parts = tuple(terms)
    size = sum(part.bytes for part in parts)
    below = sqrt(sum((part.bytes - part.low) ** 2 for part in parts))
    above = sqrt(sum((part.high - part.bytes) ** 2 for part in parts))
    return Estimate(size, size - round(below), size + round(above), worst_basis(parts), source)


def without(whole: Estimate, part: Estimate) -> Estimate:
    """Return a total without one of its terms, as if it had never been added."""
    size = whole.bytes - part.bytes
    below = sqrt(max(0, (whole.bytes - whole.low) ** 2 - (part.bytes - part.low) ** 2))
    above = sqrt(max(0, (whole.high - whole.bytes) ** 2 - (part.high - part.bytes) ** 2))
    return Estimate(size, size - round(below), size + round(above), whole.basis, whole.source)


def difference(whole: Estimate, parts: Iterable[Estimate], source: str) -> Estimate:
    """Subtract terms from a whole: the more a part takes, the less remains."""
    terms = tuple(parts)
    size = whole.bytes - sum(part.bytes for part in terms)
    below = sqrt((whole.bytes - whole.low) ** 2 + sum((part.high - part.bytes) ** 2 for part in terms))
    above = sqrt((whole.high - whole.bytes) ** 2 + sum((part.bytes - part.low) ** 2 for part in terms))
    basis = worst_basis((whole, *terms))
    return Estimate(size, size - round(below), size + round(above), basis, source)
