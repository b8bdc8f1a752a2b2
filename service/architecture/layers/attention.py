"""Softmax attention with keys and values per head."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from service.architecture.layers.mla import MultiHeadLatentAttention
from service.architecture.layers.sparse_indexers import BlockIndexer, GroupIndexer, RegionIndexer


class QueryKeyNorm(StrEnum):
    """How queries and keys are normalized before attention."""

    NONE = "none"
    PER_HEAD = "per_head"
    """One weight per head dimension, shared by all heads."""
    PER_HEAD_FLOAT32 = "per_head_float32"
    """The same with weights of 32 bits."""
    KEYS_PER_HEAD = "keys_per_head"
    """One weight per head dimension for keys; queries are normalized without weights (Domyn Edge)."""
    FULL = "full"
    """One weight per projected channel."""
    WHOLE = "whole"
    """One weight per projected channel of all ranks, on every rank."""
    PER_HEAD_AND_BIAS = "per_head_and_bias"
    """A weight and a bias per head dimension, shared by all heads."""


@dataclass(frozen=True, slots=True)
class PackedConvolutions:
    """Short convolutions of keys, values and both halves' outputs of a layer, in one cache (Inkling)."""

    kernel: int
    hidden_size: int

    def head_size(self, num_kv_heads: int, head_size: int) -> int:
        """Return the elements of a token in each head: the least power of two that holds all four streams."""
        packed = 2 * head_size + 2 * (self.hidden_size // num_kv_heads)
        return 1 << (packed - 1).bit_length()


@dataclass(frozen=True, slots=True)
class RelativeScores:
    """Scores by distance, computed from a small vector for each head (Inkling)."""

    width: int
    extent: int
    """Number of distances that have a score."""


@dataclass(frozen=True, slots=True)
class AttentionWeights:
    """The projections, norms and gates of attention with heads, which only the model of the weights reads."""

    qkv_bias: bool = False
    output_bias: bool = False
    query_key_norm: QueryKeyNorm = QueryKeyNorm.NONE
    output_gate: bool = False
    """The query projection also yields a gate of its own width (Qwen3-Next)."""
    head_gate: bool = False
    """A projection of its own yields one gate per head."""
    token_gates: bool = False
    """Queries, keys and values together yield two gates per head, and each head has a pace (Moondream 3)."""
    pass_gate: bool = False
    """Queries yield one gate per head, between this pass over the layers and a later one (LoopCoder)."""
    keys_are_values: bool = False
    """One projection yields keys and values; the cache stores both all the same (Gemma 4)."""
    sink_values: bool = False
    """The stored sinks have learned values beside learned keys."""
    value_experts: int = 0
    """Number of routed projections that yield the values in place of one projection (K2 Horizon)."""
    input_size: int | None = None
    """Input width of the query, key and value projections; ``None`` is the hidden size (Zamba 2)."""
    shared_query: int | None = None
    """Width of a query that all heads share before each head projects it (Step 3).

    This query, the keys and the values are then on every rank in full.
    """
    low_rank: MultiHeadLatentAttention | None = None
    """Projections through compressed vectors, while the cache stores full keys and values (MiniCPM 3)."""
    relative: RelativeScores | None = None
    linear_weights: bool = False
    """The weights are those of linear attention, in full on every rank (MiniMax as transformers runs it)."""


PLAIN_WEIGHTS: Final = AttentionWeights()


@dataclass(frozen=True, slots=True)
class Attention:
    """Softmax attention with keys and values in the cache, as the cache and the backends see it."""

    num_heads: int
    num_kv_heads: int
    head_size: int
    head_size_v: int
    sliding_window: int | None = None
    """Tokens that a query attends to, itself included; ``None`` is all."""
    window_excludes_itself: bool = False
    """The config does not count the query itself; some releases add one token, others do not (Command)."""
    attention_chunk_size: int | None = None
    """Tokens of a chunk; a query attends within its chunk alone (Llama 4). ``None`` without chunks."""
    alibi: bool = False
    """Distances bias the scores in place of rotary positions (BLOOM, MPT)."""
    sinks: bool = False
    """Each head adds one learned logit to its softmax (gpt-oss)."""
    shares_cache_of: int | None = None
    """Index of the earlier layer whose cache this layer reads; it then owns no cache."""
    logits_soft_cap: bool = False
    """Scores pass through a soft cap before the softmax (Gemma 2)."""
    cross: bool = False
    """Keys and values are those of an encoder, cached once for each request (Whisper)."""
    encodes: bool = False
    """Tokens see each other both ways, so that a prompt is computed at once and nothing is cached (BERT)."""
    canvas: bool = False
    """Tokens of the canvas that a request works on see each other both ways (DiffusionGemma)."""
    stored_sinks: int = 0
    """Learned keys, and maybe values, in the first blocks of the cache for all queries (openPangu)."""
    convolutions: PackedConvolutions | None = None
    flash: bool = False
    """The layer's class takes FlashAttention and runs no selection of a backend (Step 5)."""
    block_indexer: BlockIndexer | None = None
    """Selects the blocks of tokens that a query attends to; ``None`` without selection."""
    group_indexer: GroupIndexer | None = None
    """Selects groups of tokens."""
    region_indexer: RegionIndexer | None = None
    """Selects regions of tokens, for groups of heads."""
    weights: AttentionWeights = PLAIN_WEIGHTS


@dataclass(frozen=True, slots=True)
class NoAttention:
    """A layer whose attention was pruned; it caches nothing (Nemotron-NAS)."""
