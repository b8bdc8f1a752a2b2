"""The parts of an answer that a request includes, and the texts that many of its figures share."""

from collections.abc import Collection
from dataclasses import dataclass, field
from string import digits
from textwrap import shorten
from typing import Final, Self


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of an answer that a request includes."""

    memory: bool = False
    """Interval, basis and source of every memory term."""
    cache: bool = False
    """Groups, log lines, attention backends, waste, quality, and the blocks of a request."""
    candidates: bool = False
    """Every candidate, not only the recommended one."""
    levers: bool = False
    curve: bool = False
    """How many requests of which length run at once."""
    gpu: bool = False
    """Everything that is known about the GPU type."""
    survey: bool = False
    """The request names no GPU type: each is answered in short, without what follows from other members."""

    @property
    def derived(self) -> bool:
        """What follows from other members."""
        return not self.survey

    @property
    def terms(self) -> bool:
        """Every memory term, and not only weights and cache."""
        return self.memory or not self.survey

    @property
    def layout(self) -> bool:
        """Bytes and blocks of the cache."""
        return self.cache or not self.survey

    @classmethod
    def of(cls, include: Collection[str]) -> Self:
        """Read the parts that a request names; `details` stands for all but levers and curve."""
        full = "details" in include
        return cls(
            memory=full or "memory" in include,
            cache=full or "cache" in include,
            candidates=full or "candidates" in include,
            levers="levers" in include,
            curve="curve" in include,
            gpu=full,
        )


MOST_REPEATED: Final = 100
"""Characters of a text that is written again."""
WITHOUT_DIGITS: Final = str.maketrans("", "", digits)
PLAIN: Final = Parts()
"""What a request gets that includes nothing."""


@dataclass(frozen=True, slots=True)
class Texts:
    """Long texts of an answer by id, so that a text that many figures share is written once."""

    prefix: str
    ids: dict[str, str] = field(default_factory=dict)
    whole: set[str] = field(default_factory=set)
    """Texts that were written whole, without their digits."""

    def id_of(self, text: str) -> str:
        """Return the id of a text; a new text gets the next one."""
        return self.ids.setdefault(text, f"{self.prefix}{len(self.ids) + 1}")

    def once_whole(self, text: str) -> str:
        """Return a text whole the first time, and the beginning of a long one after that.

        Texts that differ in their numbers alone are the same text.
        """
        words = text.translate(WITHOUT_DIGITS)
        if words not in self.whole:
            self.whole.add(words)
            return text
        return shorten(text, MOST_REPEATED, placeholder=" ...")

    def by_id(self) -> dict[str, str]:
        """Return all texts by their ids."""
        return {name: text for text, name in self.ids.items()}
