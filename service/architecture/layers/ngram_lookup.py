"""Embeddings of n-grams that layers read (DeepSeek V4.1)."""

from dataclasses import dataclass
from typing import Final

SCALED: Final = 32
"""Elements of a row that share a scale of one byte."""


@dataclass(frozen=True, slots=True)
class NgramLookup:
    """A table of n-grams, of which a gated part is added to the copies of the hidden state (Engram)."""

    tables: int
    """Rows that are read for each token: one for each length of n-grams and each hash."""
    width: int
    """Elements of a row, in 8 bits with a scale for each 32."""
    rows: int
    """Rows of all tables together; they are in the host's memory unless the flags say otherwise."""
    copies: int
    """Copies of the hidden state that it is added to."""

    @property
    def table_bytes(self) -> int:
        """Bytes of all rows."""
        return self.rows * (self.width + self.width // SCALED)
