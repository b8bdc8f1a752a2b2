"""Moves the speed of a layout by measurements of that very layout."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import exp, log


@dataclass(frozen=True, slots=True)
class LayoutPoint:
    """One measurement, beside what is predicted for it."""

    running: float
    """Requests that ran at once on one engine."""
    ratio: float
    """Measured divided by predicted time of a token."""


def ratio_at(points: Sequence[LayoutPoint], running: float) -> float:
    """Return by how much to multiply the predicted time of a token where so many requests run.

    Between two measurements the ratio changes evenly with the logarithm of the requests; outside them it is
    that of the nearest one.
    """
    ordered = sorted(points, key=lambda point: point.running)
    if running <= ordered[0].running:
        return ordered[0].ratio
    for low, high in pairwise(ordered):
        if low.running < running <= high.running:
            share = log(running / low.running) / log(high.running / low.running)
            return exp(log(low.ratio) + share * log(high.ratio / low.ratio))
    return ordered[-1].ratio
