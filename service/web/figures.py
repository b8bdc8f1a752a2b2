"""Numbers as people read them: grouped digits, GiB, percent."""

from typing import Final

from service.application.text.words import printable
from service.memory.budget_types import Estimate
from service.units import gib_amount

DASH: Final = "\N{EN DASH}"
"""Stands where there is no number."""


def grouped(number: int | None) -> str:
    """Return a whole number with its digits grouped; a dash where there is none."""
    return DASH if number is None else f"{number:,}"


def times(number: float | None) -> str:
    """Return a number of requests with two decimals: ``1.87``; a dash where there is none."""
    return DASH if number is None else f"{number:,.2f}"


def gib(estimate: Estimate) -> str:
    """Return an estimate in GiB, without the unit."""
    return gib_amount(estimate.bytes)


def interval(estimate: Estimate) -> str:
    """Return the 10th to 90th percentile in GiB; empty where they are equal."""
    low, high = gib_amount(estimate.low), gib_amount(estimate.high)
    return "" if low == high else f"{low} to {high}"


def percent(part: int, whole: int) -> str:
    """Return a share in percent with as many decimals as show it."""
    share = 100 * part / whole if whole else 0.0
    return f"{share:.2f} %" if 0 < share < 1 else f"{share:.1f} %"


def plain(text: str) -> str:
    """Return a text without characters that change how the text around them is shown."""
    return " ".join(printable(text).split())


def plain_lines(text: str) -> str:
    """Return a text of several lines without characters that change how the text around them is shown."""
    return printable(text)
