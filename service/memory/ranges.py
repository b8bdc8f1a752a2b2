"""Uncertain constants: a middle value with its 10th and 90th percentile."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from service.units import MIB


def _check_order(middle: float, low: float, high: float) -> None:
    if not low <= middle <= high:
        raise ValueError(f"{middle} is not between {low} and {high}")


@dataclass(frozen=True, slots=True)
class Range:
    """A percentage or a number of copies.

    Raises:
        ValueError: the middle is not between the percentiles.
    """

    middle: float
    low: float
    high: float

    def __post_init__(self) -> None:
        _check_order(self.middle, self.low, self.high)


@dataclass(frozen=True, slots=True)
class MibRange:
    """A size in whole MiB, as the data states it.

    Raises:
        ValueError: the middle is not between the percentiles.
    """

    middle: int
    low: int
    high: int

    def __post_init__(self) -> None:
        _check_order(self.middle, self.low, self.high)

    @property
    def bytes(self) -> tuple[int, int, int]:
        """The middle, the 10th and the 90th percentile in bytes."""
        return self.middle * MIB, self.low * MIB, self.high * MIB


@dataclass(frozen=True, slots=True)
class RankRanges:
    """A size per rank, for a start on one rank and for one on several."""

    one: MibRange
    several: MibRange


class HasCapability(Protocol):
    """An entry of a list by compute capability."""

    @property
    def capability(self) -> tuple[int, int]:
        """Least compute capability that the entry is for."""


Entry = TypeVar("Entry", bound=HasCapability)


def for_capability(entries: Sequence[Entry], capability: tuple[int, int]) -> Entry:
    """Return the entry for a GPU: the last that its compute capability reaches, else the first.

    ``entries`` are in ascending order of compute capability.
    """
    reached = [entry for entry in entries if entry.capability <= capability]
    return reached[-1] if reached else entries[0]
