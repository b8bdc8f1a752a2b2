"""CUDA compute capability: the version of a GPU's instruction set."""

import re
from dataclasses import dataclass
from typing import Final, Self

_TEXT: Final = re.compile(r"([0-9]{1,3})\.([0-9])", re.ASCII)


@dataclass(frozen=True, slots=True, order=True)
class ComputeCapability:
    """A compute capability, ordered as the hardware generations are.

    Raises:
        ValueError: ``major`` is not positive or ``minor`` is not one decimal digit.
    """

    major: int
    minor: int

    def __post_init__(self) -> None:
        if self.major < 1 or not 0 <= self.minor <= 9:  # noqa: PLR2004 - one decimal digit
            raise ValueError(f"there is no compute capability {self.major}.{self.minor}")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the capability that a text such as ``"8.6"`` names.

        Raises:
            ValueError: the text is not ``<major>.<minor>``.
        """
        match = _TEXT.fullmatch(text)
        if match is None:
            raise ValueError(f"{text!r} is not a compute capability such as '8.6'")
        return cls(int(match[1]), int(match[2]))

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"
