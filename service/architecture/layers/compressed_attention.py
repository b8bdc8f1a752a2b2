"""Attention over a window and over older tokens compressed in groups (DeepSeek V4)."""

from dataclasses import dataclass
from typing import Final

from service.architecture.layers.sparse_indexers import Indexer

OVERLAPPING_RATIO: Final = 4
"""vLLM 0.20.0 to 0.33.0, DeepseekCompressor.overlap."""


@dataclass(frozen=True, slots=True)
class CompressedAttention:
    """Attention over a window of tokens, and over older tokens compressed in groups (DeepSeek V4)."""

    num_heads: int
    head_size: int
    q_lora_rank: int
    qk_rope_head_dim: int
    sliding_window: int
    compress_ratio: int
    """Tokens of a group; 0 or 1 where the layer has only the window."""
    indexer: Indexer | None
    output_groups: int
    output_rank: int

    @property
    def compresses(self) -> bool:
        """Whether the layer caches tokens older than the window."""
        return self.compress_ratio > 1

    @property
    def overlaps(self) -> bool:
        """Whether each group is compressed together with the previous one."""
        return self.compress_ratio == OVERLAPPING_RATIO
