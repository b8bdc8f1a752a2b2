"""What one attention layer asks of a backend."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionRequest:
    """One layer's demands, after every rewrite the engine makes before it chooses.

    Mirrors the engine's ``AttentionSelectorConfig`` and the few facts of the model that its backends look up
    beside it. Head counts are per rank.
    """

    head_size: int
    """For MLA the cached width: ``kv_lora_rank + qk_rope_head_dim``."""
    dtype: str
    """The model's dtype: ``bfloat16``, ``float16`` or ``float32``."""
    kv_cache_dtype: str
    """The layer's own, as the engine writes it: ``auto``, ``fp8_e4m3``, ``turboquant_k8v4``, ..."""
    num_heads: int
    num_kv_heads: int
    block_size: int | None = None
    """``--block-size`` when the user gave one; a default never filters backends."""
    mla: bool = False
    sinks: bool = False
    mm_prefix: bool = False
    """Attention is bidirectional over the tokens of one image (Gemma 3, multimodal Gemma 4)."""
    sliding_window: bool = False
    logits_soft_cap: bool = False
    qk_nope_head_dim: int | None = None
    """MLA only."""
    model_head_size: int | None = None
    """The head size of the model as a whole, where its layers differ; None: the layer's own."""
    flash_attn_version: int | None = None
    """The FlashAttention version that the engine forces for this model (see ``forced_attention``)."""
