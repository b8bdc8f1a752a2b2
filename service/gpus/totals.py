"""A memory total as a tool printed it, and the bytes it can stand for."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor
from typing import Final, Self

from service.units import GIB, MIB

_PRINTED: Final = re.compile(r"(?P<number>[0-9]+(?:\.(?P<decimals>[0-9]+))?) (?P<unit>GiB|MiB|B)", re.ASCII)


@dataclass(frozen=True, slots=True)
class MemoryTotal:
    """A total in bytes with the interval it lies in.

    Raises:
        ValueError: unless ``0 < low <= value <= high``.
    """

    value: int
    low: int
    high: int

    def __post_init__(self) -> None:
        if not 0 < self.low <= self.value <= self.high:
            raise ValueError(f"not an interval around its value: {self.low} <= {self.value} <= {self.high}")

    @classmethod
    def printed(cls, text: str) -> Self:
        """Read a printed total: ``23.56 GiB`` is rounded, ``24126 MiB`` cut to whole MiB, ``... B`` exact.

        vLLM and PyTorch round GiB to the last digit; PyTorch's properties and llama.cpp divide by a MiB
        and drop the rest.

        Raises:
            ValueError: the text is not a number with one of these units, or has decimals where none are due.
        """
        match = _PRINTED.fullmatch(text)
        if match is None or (match["decimals"] is not None) != (match["unit"] == "GiB"):
            raise ValueError(f"not a printed total such as '23.56 GiB' or '24126 MiB': {text!r}")
        if match["unit"] == "B":
            exact = int(match["number"])
            return cls(exact, exact, exact)
        if match["unit"] == "MiB":
            whole = int(match["number"]) * MIB
            return cls(whole, whole, whole + MIB - 1)
        number, half_digit = Fraction(match["number"]), Fraction(1, 2 * 10 ** len(match["decimals"]))
        return cls(round(number * GIB), ceil((number - half_digit) * GIB), floor((number + half_digit) * GIB))

    def widened(self, slack: int) -> Self:
        """Return the same value, ``slack`` bytes less certain on both sides."""
        return type(self)(self.value, self.low - slack, self.high + slack)

    def spanning(self, others: Iterable["MemoryTotal"]) -> Self:
        """Return the same value with an interval that covers those of ``others`` too."""
        lows, highs = [self.low], [self.high]
        for other in others:
            lows.append(other.low)
            highs.append(other.high)
        return type(self)(self.value, min(lows), max(highs))

    def below(self, limit: int) -> Self:
        """Return the same value with the interval cut at ``limit``.

        Raises:
            ValueError: the value itself lies above the limit.
        """
        return type(self)(self.value, self.low, min(self.high, limit))
