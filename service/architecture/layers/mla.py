"""Multi-head latent attention (MLA)."""

from dataclasses import dataclass

from service.architecture.layers.sparse_indexers import Indexer


@dataclass(frozen=True, slots=True)
class MlaWeights:
    """The projections, norms and gates of MLA, which only the model of the weights reads."""

    q_lora_rank: int | None
    """Width of the compressed queries; ``None`` projects queries at once."""
    v_head_dim: int
    qkv_bias: bool = False
    output_gate: bool = False
    """A projection as wide as the values gates the output (Kimi K3)."""
    head_gate: bool = False
    """A projection yields one gate per head (HY V4)."""
    rotary_norm: bool = False
    """The rotary part is normalized, and each rank has the gates of all heads (Dots 3 Note)."""


@dataclass(frozen=True, slots=True)
class MultiHeadLatentAttention:
    """Multi-head latent attention (MLA): one compressed vector per token in the cache."""

    num_heads: int
    kv_lora_rank: int
    qk_nope_head_dim: int
    qk_rope_head_dim: int
    weights: MlaWeights
    indexer: Indexer | None = None
    """Selects the tokens that a query attends to; ``None`` is all."""
    sinks: bool = False
    """Each head adds one learned logit to its softmax, where some backend can do so (HY V4)."""
    sliding_window: int | None = None
    """Tokens that a query attends to, itself included (Dots 3 Note); ``None`` is all."""
    row_size: int | None = None
    """Elements per token in the cache where rows are padded to those of other layers (Dots 3 Note)."""

    @property
    def head_size(self) -> int:
        """Elements per token in the cache, without padding."""
        return self.kv_lora_rank + self.qk_rope_head_dim
