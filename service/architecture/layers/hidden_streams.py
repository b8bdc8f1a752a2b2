"""Several copies of the hidden state that run through the layers side by side."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HyperConnections:
    """Copies of the hidden state that run side by side, read and written by weights (DeepSeek V4, HY V4)."""

    copies: int
    mixed: bool
    """They are mixed among each other too."""
    merged_everywhere: bool
    """Every pipeline stage builds what makes one of them in the end, not the last alone."""
    summed: bool = False
    """They are added up in the end, which takes no weights (GLM-5 Next)."""

    @property
    def rows(self) -> int:
        """Weights of one token at the entry and the exit of a mixer or network."""
        return (2 + self.copies if self.mixed else 2) * self.copies

    @property
    def scales(self) -> int:
        """Learned scales of those weights, one per use."""
        return 3 if self.mixed else 2


@dataclass(frozen=True, slots=True)
class GatedResiduals:
    """The same with norms of their own, read through a low rank and written by a weight each (Qwen4 Exp)."""

    copies: int
    rank: int


@dataclass(frozen=True, slots=True)
class AlternatingUpdates:
    """Parallel copies of the hidden state with a low-rank side path (Gemma 3n)."""

    num_inputs: int
    laurel_rank: int
