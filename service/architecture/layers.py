"""The layers of a decoder, as far as memory is concerned."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

from service.architecture.recurrence import NgramConvolution, Recurrence

OVERLAPPING_RATIO: Final = 4
"""vLLM 0.20.0 to 0.33.0, DeepseekCompressor.overlap."""


class CachePart(StrEnum):
    """The caches that one layer may own."""

    ATTENTION = "attention"
    """Keys and values, or the compressed vectors of MLA."""
    INDEXER = "indexer"
    """Keys by which tokens are picked for sparse attention."""
    WINDOW = "window"
    """The latest tokens, uncompressed (DeepSeek V4)."""
    COMPRESSOR = "compressor"
    """What the compressor holds of tokens that it has not compressed yet."""
    INDEXER_COMPRESSOR = "indexer_compressor"
    """The same for the indexer's keys."""
    CONVOLUTIONS = "convolutions"
    """The latest inputs of a layer's short convolutions (Inkling)."""


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
    low_rank: "MultiHeadLatentAttention | None" = None
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


@dataclass(frozen=True, slots=True)
class MultiHeadLatentAttention:
    """Multi-head latent attention (MLA): one compressed vector per token in the cache."""

    num_heads: int
    q_lora_rank: int | None
    kv_lora_rank: int
    qk_nope_head_dim: int
    qk_rope_head_dim: int
    v_head_dim: int
    qkv_bias: bool = False
    indexer: Indexer | None = None
    """Sparse attention over picked tokens; ``None`` looks at all."""
    output_gate: bool = False
    """A projection as wide as the values gates the output (Kimi K3)."""
    head_gate: bool = False
    """A projection yields one gate per head (HY V4)."""
    sinks: bool = False
    """One learned logit per head joins every softmax, where some backend can do so (HY V4)."""
    sliding_window: int | None = None
    """Tokens that a query sees, itself included (Dots 3 Note); ``None`` sees all."""
    row_size: int | None = None
    """Elements that one token keeps, where rows are padded to those of other layers (Dots 3 Note)."""
    rotary_norm: bool = False
    """The rotary part is normalized, and gates of heads are whole on every rank (Dots 3 Note)."""

    @property
    def head_size(self) -> int:
        """Elements that one token keeps in the cache."""
        return self.kv_lora_rank + self.qk_rope_head_dim


@dataclass(frozen=True, slots=True)
class CompressedAttention:
    """Attention over a window of tokens, and over older ones compressed in groups (DeepSeek V4)."""

    num_heads: int
    head_size: int
    q_lora_rank: int
    qk_rope_head_dim: int
    sliding_window: int
    compress_ratio: int
    """Tokens of a group; 0 or 1 where there is the window alone."""
    indexer: Indexer | None
    output_groups: int
    output_rank: int

    @property
    def compresses(self) -> bool:
        """Whether older tokens are kept at all."""
        return self.compress_ratio > 1

    @property
    def overlaps(self) -> bool:
        """Whether each group is compressed with the one before it."""
        return self.compress_ratio == OVERLAPPING_RATIO


@dataclass(frozen=True, slots=True)
class DenseFeedForward:
    """A gated or plain feed-forward network."""

    intermediate_size: int
    gated: bool = True
    bias: bool = False
    output_bias: bool = False
    """The last projection alone has a bias."""


@dataclass(frozen=True, slots=True)
class MixtureOfExperts:
    """Routed experts, with what accompanies them in the same layer."""

    num_experts: int
    experts_per_token: int
    intermediate_size: int
    shared_intermediate_size: int = 0
    """Width of the always-on experts together; 0 when there are none."""
    shared_gate: bool = False
    """A learned scalar gate weighs the shared expert (Qwen)."""
    router_bias: bool = False
    expert_bias: bool = False
    router_float32: bool = False
    """The router's matrix is kept in 32 bits."""
    router_computes_float32: bool = False
    """It is where no kernel computes in them with a matrix of 16 (Nemotron-H)."""
    parallel_dense: DenseFeedForward | None = None
    """A dense network that runs beside the experts (Gemma 4)."""
    gated: bool = True
    """Experts, routed and shared, gate their first projection."""
    clamped: bool = False
    """What the gate lets through is limited (DeepSeek V4)."""
    sharded: bool = False
    """Whole experts are dealt to tensor parallel ranks, whatever the flags say (Moondream 3)."""
    zero_experts: int = 0
    """Choices of the router that no expert stands behind (LongCat)."""
    banks: int = 0
    """Banks of routed experts that the layers have in common, each for every so many; 0: one per layer."""
    latent_size: int | None = None
    """Width of the vectors that routed experts see, where it is not the hidden size (Nemotron 3)."""
    latent_norms: int = 0
    """Norms of those vectors: on their way back (Kimi K3), or on both (Muse Spark)."""
    least_width: int = 0
    """Width of a split expert on each rank, at least, in releases that round it up (Kimi)."""


@dataclass(frozen=True, slots=True)
class NoFeedForward:
    """A layer whose feed-forward network was pruned (Nemotron-NAS)."""


TokenMixer: TypeAlias = Attention | MultiHeadLatentAttention | CompressedAttention
"""Mixers that keep something per token."""
Mixer: TypeAlias = TokenMixer | Recurrence | NoAttention
FeedForward: TypeAlias = DenseFeedForward | MixtureOfExperts | NoFeedForward


@dataclass(frozen=True, slots=True)
class SharedBlock:
    """Attention and a network that several layers run in turn, each with adapters of its own (Zamba 2)."""

    owns_weights: bool
    """This layer is the first one to run the block, whose weights count once."""
    adapter_rank: int
    attention_adapters: bool


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
class DecoderLayer:
    """One block of the decoder: what mixes tokens, and what transforms each."""

    mixer: Mixer
    feed_forward: FeedForward
    norms: int = 2
    """Normalization weights of the hidden size."""
    beside: Recurrence | None = None
    """What mixes tokens in parallel to the attention (Falcon-H1)."""
    before: NgramConvolution | None = None
    """What the last few tokens together add before the mixer (Qwen4 Exp)."""
    mixer_name: str = ""
    """The mixer's module in checkpoints, where it is not called after its kind."""
    feed_forward_name: str = "mlp"
    shared: SharedBlock | None = None
    """Attention and network are those of a block that other layers run too."""
    repeats: bool = False
    """An earlier layer runs once more: the cache is its own, the weights are not (looped models)."""
