"""Several copies of the hidden state that run through the layers in parallel."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HyperConnections:
    """Parallel copies of the hidden state, read and written by learned weights (DeepSeek V4, HY V4)."""

    copies: int
    mixed: bool
    """Each layer also mixes the copies with each other."""
    merged_everywhere: bool
    """Every pipeline stage, not only the last, builds the module that merges the copies at the end."""
    summed: bool = False
    """The copies are added up after the last layer, which takes no weights (GLM-5 Next, DeepSeek V4.1)."""

    @property
    def rows(self) -> int:
        """Weights of one token before and after a mixer or network."""
        return (2 + self.copies if self.mixed else 2) * self.copies

    @property
    def scales(self) -> int:
        """Learned scales of those weights: one for reading, one for writing, one for mixing."""
        return 3 if self.mixed else 2


@dataclass(frozen=True, slots=True)
class GatedResiduals:
    """Parallel copies with norms of their own, read through a low-rank projection (Qwen4 Exp)."""

    copies: int
    rank: int


@dataclass(frozen=True, slots=True)
class AlternatingUpdates:
    """Parallel copies of the hidden state with a low-rank side path (Gemma 3n)."""

    num_inputs: int
    laurel_rank: int
