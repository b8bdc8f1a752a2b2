"""The parts of an answer that a request includes, and the texts that many of its figures share."""

from collections.abc import Collection
from dataclasses import dataclass, field
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


PLAIN: Final = Parts()
"""What a request gets that includes nothing."""


@dataclass(frozen=True, slots=True)
class Texts:
    """Long texts of an answer by id, so that a text that many figures share is written once."""

    prefix: str
    ids: dict[str, str] = field(default_factory=dict)

    def id_of(self, text: str) -> str:
        """Return the id of a text; a new text gets the next one."""
        return self.ids.setdefault(text, f"{self.prefix}{len(self.ids) + 1}")

    def by_id(self) -> dict[str, str]:
        """Return all texts by their ids."""
        return {name: text for text, name in self.ids.items()}
