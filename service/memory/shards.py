"""Which part of each module one rank has."""

from dataclasses import dataclass
from typing import Final

from service.units import ceil_div, round_up

VOCABULARY_PADDING: Final = 64
"""vLLM 0.32.0, vocab_parallel_embedding.DEFAULT_VOCAB_PADDING_SIZE."""


@dataclass(frozen=True, slots=True)
class Shards:
    """The parallel sizes that decide which part of each module one rank has."""

    tensor_parallel_size: int = 1
    expert_parallel_size: int = 1
    """1 splits every expert over the ranks; with more, each rank has whole experts."""
    data_parallel_size: int = 1
    """Replicas of attention; every expert is split over the ranks of all replicas."""
    spare_experts: int = 0
    """Experts that all ranks together store beside the model's own."""

    @property
    def splits(self) -> bool:
        """Whether tensor parallelism splits modules at all."""
        return self.tensor_parallel_size > 1

    def share(self, size: int) -> int:
        """Return this rank's part of a dimension that is split."""
        return ceil_div(size, self.tensor_parallel_size)

    def kv_heads(self, heads: int) -> int:
        """Return this rank's key/value heads, at least one: fewer heads than ranks are replicated."""
        return max(1, heads // self.tensor_parallel_size)

    def vocabulary(self, rows: int) -> int:
        """Return this rank's rows of a vocabulary."""
        return self.share(round_up(rows, VOCABULARY_PADDING))

    def experts(self, count: int) -> int:
        """Return the experts on the fullest rank.

        Source: vLLM 0.11.0 and 0.32.0, FusedMoE: ``global_num_experts`` counts redundant ones.
        """
        return ceil_div(count + self.spare_experts, self.expert_parallel_size)

    def expert_width(self, width: int) -> int:
        """Return the width of one expert on this rank.

        Source: vLLM 0.11.0 to 0.33.0, FusedMoEParallelConfig.make: without expert parallelism the experts are
        split over the tensor parallel ranks of all data parallel ones.
        """
        return ceil_div(width, self.expert_width_shards)

    @property
    def expert_width_shards(self) -> int:
        """The ranks that the width of one expert is split over."""
        whole = self.expert_parallel_size > 1
        return 1 if whole else self.tensor_parallel_size * self.data_parallel_size
