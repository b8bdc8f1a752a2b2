"""Indexers: small attention modules that select the tokens which sparse attention reads."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BlockIndexer:
    """Selects blocks of tokens for attention with heads (MiniMax M3)."""

    num_heads: int
    """Equal to the number of key/value heads; ranks split both in the same way."""
    head_dim: int
    top_k: int
    """Selected blocks."""


@dataclass(frozen=True, slots=True)
class GroupIndexer:
    """Selects groups of tokens for attention with heads, by one key for each group (Qwen4 Exp)."""

    num_heads: int
    head_dim: int
    group_size: int
    """Tokens of a group, whose keys are pooled into one key."""
    keeps_positions: bool
    """The cache stores the positions of an incomplete group, which have three axes for images."""


@dataclass(frozen=True, slots=True)
class RegionIndexer:
    """Selects regions of tokens for groups of heads, by one summary for each region (Step 5)."""

    num_heads: int
    head_dim: int
    providers: int
    """Groups of heads with a selection of their own; one for each key/value head."""
    region_size: int
    """Tokens of a region."""


@dataclass(frozen=True, slots=True)
class Indexer:
    """Selects single tokens, or groups of them, for sparse MLA (DeepSeek V3.2, GLM-5)."""

    num_heads: int
    head_dim: int
    top_k: int
    """Selected tokens."""
    reuses_selection: bool = False
    """The layer reuses the selection of an earlier layer; many releases still build its indexer."""
    group_size: int = 1
    """Tokens whose keys are pooled into one; a tail cache has those of the incomplete group (GLM-5 Next)."""
