"""Verdict: whether the engine starts."""

from enum import StrEnum
from typing import Final


class Verdict(StrEnum):
    """Whether the engine starts."""

    STARTS = "starts"
    REFUSED = "does_not_start"
    UNCERTAIN = "uncertain"
    """It depends on what is not known: memory within an interval, or a given cache larger than the device."""


VERDICTS: Final = (Verdict.STARTS, Verdict.UNCERTAIN, Verdict.REFUSED)
"""Best first."""
