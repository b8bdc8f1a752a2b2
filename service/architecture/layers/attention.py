"""Softmax attention with keys and values per head."""

from dataclasses import dataclass
from enum import StrEnum

from service.architecture.layers.mla import MultiHeadLatentAttention
from service.architecture.layers.sparse_indexers import BlockIndexer, GroupIndexer, RegionIndexer


class QueryKeyNorm(StrEnum):
    """How queries and keys are normalized before attention."""

    NONE = "none"
    PER_HEAD = "per_head"
    """One weight per head dimension, shared by all heads."""
    PER_HEAD_FLOAT32 = "per_head_float32"
    """The same in 32 bits."""
    KEYS_PER_HEAD = "keys_per_head"
    """One for keys alone; queries are normalized without weights (Domyn Edge)."""
    FULL = "full"
    """One weight per projected channel."""
    WHOLE = "whole"
    """One weight per projected channel of all ranks together."""
    PER_HEAD_AND_BIAS = "per_head_and_bias"
    """A weight and a bias per head dimension, shared by all heads."""


@dataclass(frozen=True, slots=True)
class PackedConvolutions:
    """Short convolutions of keys, values and what both halves of a layer yield, with one cache (Inkling)."""

    kernel: int
    hidden_size: int

    def head_size(self, num_kv_heads: int, head_size: int) -> int:
        """Return the elements of a token in each head: a power of two that holds all four streams."""
        packed = 2 * head_size + 2 * (self.hidden_size // num_kv_heads)
        return 1 << (packed - 1).bit_length()


@dataclass(frozen=True, slots=True)
class RelativeScores:
    """Scores by distance, made of a small vector that each head yields (Inkling)."""

    width: int
    extent: int
    """Distances that have a score."""


@dataclass(frozen=True, slots=True)
class Attention:
    """Softmax attention with keys and values of every (kept) token in the cache."""

    num_heads: int
    num_kv_heads: int
    head_size: int
    head_size_v: int
    sliding_window: int | None = None
    """Tokens that a query sees, itself included; ``None`` sees all."""
    window_excludes_itself: bool = False
    """The config counts the window in earlier tokens alone, which not every release heeds (Command)."""
    attention_chunk_size: int | None = None
    """Tokens of the chunks that queries do not look beyond (Llama 4); ``None`` without chunks."""
    alibi: bool = False
    """Distances bias the scores instead of rotary positions (BLOOM, MPT)."""
    sinks: bool = False
    """One learned logit per head joins every softmax (gpt-oss)."""
    shares_cache_of: int | None = None
    """Index of the earlier layer whose cache this one reads; such a layer owns none."""
    logits_soft_cap: bool = False
    """Attention scores are squashed before the softmax (Gemma 2)."""
    qkv_bias: bool = False
    output_bias: bool = False
    query_key_norm: QueryKeyNorm = QueryKeyNorm.NONE
    output_gate: bool = False
    """The query projection also yields a gate of its own width (Qwen3-Next)."""
    keys_are_values: bool = False
    """One projection serves keys and values; both are cached all the same (Gemma 4)."""
    low_rank: MultiHeadLatentAttention | None = None
    """Projections through compressed vectors, though keys and values are cached in full (MiniCPM 3)."""
    head_gate: bool = False
    """A projection of its own yields one gate per head."""
    input_size: int | None = None
    """Width of what queries, keys and values are projected from, where not the hidden size (Zamba 2)."""
    cross: bool = False
    """Keys and values are an encoder's, cached once for each request (Whisper)."""
    stored_sinks: int = 0
    """Learned keys, and maybe values, in the first blocks of the cache that every query sees (openPangu)."""
    sink_values: bool = False
    """Values are learned for them too."""
    value_experts: int = 0
    """Routed projections that values come from instead of one (K2 Horizon)."""
    token_gates: bool = False
    """Queries, keys and values together yield two gates per head, and each head has a pace (Moondream 3)."""
    pass_gate: bool = False
    """Queries yield one gate per head, between this pass over the layers and a later one (LoopCoder)."""
    convolutions: PackedConvolutions | None = None
    relative: RelativeScores | None = None
    shared_query: int | None = None
    """Width of a query that all heads have in common and each then makes its own of (Step 3).

    What comes before the heads part, keys and values included, is then on every rank.
    """
    linear_weights: bool = False
    """The weights are those of linear attention, whole on every rank (MiniMax as transformers runs it)."""
    flash: bool = False
    """The layer's class takes FlashAttention without asking which backend fits (Step 5)."""
    block_indexer: BlockIndexer | None = None
    """Sparse attention over picked blocks; ``None`` looks at all."""
    group_indexer: GroupIndexer | None = None
    """The same over picked groups of tokens."""
    region_indexer: RegionIndexer | None = None
    """The same over regions that groups of heads pick."""


@dataclass(frozen=True, slots=True)
class NoAttention:
    """A layer whose attention was pruned: nothing is mixed, nothing cached (Nemotron-NAS)."""
