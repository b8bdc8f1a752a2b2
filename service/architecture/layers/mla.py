"""Multi-head latent attention (MLA)."""

from dataclasses import dataclass

from service.architecture.layers.sparse_indexers import Indexer


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
