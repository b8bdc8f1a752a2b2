"""MemoryTotal: a memory total as a tool printed it, with the interval of bytes that it may mean."""

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
    """A total in bytes, with the interval that contains the true value.

    Raises:
        ValueError: unless ``0 < low <= value <= high``.
    """

    value: int
    low: int
    high: int

    def __post_init__(self) -> None:
        if not 0 < self.low <= self.value <= self.high:
            raise ValueError(
                f"the interval does not contain its value: {self.low}, {self.value}, {self.high}"
            )

    @classmethod
    def printed(cls, text: str) -> Self:
        """Return the total that a text such as ``23.56 GiB``, ``24126 MiB`` or ``25300000000 B`` means.

        GiB are rounded to the last digit (vLLM, PyTorch). MiB are cut to whole numbers (PyTorch's properties,
        llama.cpp). Bytes are exact.

        Raises:
            ValueError: the text is not a number with one of these units, or only one in GiB has decimals.
        """
        match = _PRINTED.fullmatch(text)
        if match is None or (match["decimals"] is not None) != (match["unit"] == "GiB"):
            raise ValueError(f"{text!r} is not a printed total such as '23.56 GiB' or '24126 MiB'")
        if match["unit"] == "B":
            exact = int(match["number"])
            return cls(exact, exact, exact)
        if match["unit"] == "MiB":
            whole = int(match["number"]) * MIB
            return cls(whole, whole, whole + MIB - 1)
        number, half_digit = Fraction(match["number"]), Fraction(1, 2 * 10 ** len(match["decimals"]))
        return cls(round(number * GIB), ceil((number - half_digit) * GIB), floor((number + half_digit) * GIB))

    def widened(self, slack: int) -> Self:
        """Return the same value with an interval that is ``slack`` bytes wider on both sides."""
        return type(self)(self.value, self.low - slack, self.high + slack)

    def spanning(self, others: Iterable["MemoryTotal"]) -> Self:
        """Return the same value with an interval that also covers those of ``others``."""
        lows, highs = [self.low], [self.high]
        for other in others:
            lows.append(other.low)
            highs.append(other.high)
        return type(self)(self.value, min(lows), max(highs))

    def below(self, limit: int) -> Self:
        """Return the same value with an interval that ends at ``limit`` bytes.

        Raises:
            ValueError: the value is above the limit.
        """
        return type(self)(self.value, self.low, min(self.high, limit))
