"""Indexers: small attention of their own that selects what sparse attention reads."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BlockIndexer:
    """What picks the blocks of tokens that attention with heads looks at (MiniMax M3)."""

    num_heads: int
    """As many as there are key heads, with which they are split over ranks."""
    head_dim: int
    top_k: int
    """Blocks picked."""


@dataclass(frozen=True, slots=True)
class GroupIndexer:
    """What picks groups of tokens, by one key each, that attention with heads looks at (Qwen4 Exp)."""

    num_heads: int
    head_dim: int
    group_size: int
    """Tokens whose keys become one."""
    keeps_positions: bool
    """Keys of an unfinished group go with their positions, which images have on three axes."""


@dataclass(frozen=True, slots=True)
class RegionIndexer:
    """What picks regions of tokens for groups of heads, by a summary each (Step 5)."""

    num_heads: int
    head_dim: int
    providers: int
    """Groups of heads that pick for themselves, one for each key head."""
    region_size: int
    """Tokens of a region."""


@dataclass(frozen=True, slots=True)
class Indexer:
    """What picks the tokens that sparse attention looks at (DeepSeek V3.2, GLM-5)."""

    num_heads: int
    head_dim: int
    top_k: int
    """Tokens picked."""
    reuses_selection: bool = False
    """The layer takes what an earlier layer picked; many releases build an indexer for it all the same."""
    group_size: int = 1
    """Tokens whose keys become one, those of the open group kept aside (GLM-5 Next)."""
