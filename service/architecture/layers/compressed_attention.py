"""Attention over a window and over older tokens compressed in groups (DeepSeek V4 and V4.1)."""

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
    def reads_compressed(self) -> bool:
        """Whether the layer attends to tokens older than the window, by whichever layer they are cached."""
        return self.compresses

    @property
    def keeps_keys(self) -> bool:
        """Whether the layer's indexer has a cache of its own."""
        return self.indexer is not None

    @property
    def overlaps(self) -> bool:
        """Whether each group is compressed together with the previous one."""
        return self.compress_ratio == OVERLAPPING_RATIO


@dataclass(frozen=True, slots=True)
class SharedCompressedAttention(CompressedAttention):
    """Compressed attention in which several layers read the tokens that one compresses (DeepSeek V4.1).

    A ratio of 1 keeps every token; with 0 the layer has only the window.
    """

    compresses_tokens: bool
    """The layer owns compressed tokens and their keys, which it and the layers after it read."""
    selected_tokens: int
    """Compressed tokens that a query reads at most; 0 where the layer has only the window."""
    candidate_blocks: int = 0
    """Blocks of compressed tokens to which the layer's indexer narrows the choice of those after it."""

    @property
    def compresses(self) -> bool:
        """Whether the layer caches tokens older than the window."""
        return self.compresses_tokens

    @property
    def reads_compressed(self) -> bool:
        """Whether the layer attends to tokens older than the window, by whichever layer they are cached."""
        return self.compress_ratio > 0

    @property
    def keeps_keys(self) -> bool:
        """Whether the layer's indexer has a cache of its own; others read that of the tokens' layer."""
        return self.indexer is not None and self.compresses_tokens

    @property
    def pools(self) -> bool:
        """Whether several tokens become one, so that those of an incomplete group are cached."""
        return self.compresses_tokens and self.compress_ratio > 1

    @property
    def overlaps(self) -> bool:
        """Each group is compressed alone."""
        return False
