"""What one attention layer asks of a backend."""

from dataclasses import dataclass
from enum import StrEnum


class AttentionType(StrEnum):
    """Whose keys a layer's queries meet."""

    DECODER = "decoder"
    ENCODER = "encoder"
    ENCODER_ONLY = "encoder_only"
    """Both ways over the prompt; such a layer keeps no cache."""
    ENCODER_DECODER = "encoder_decoder"
    """Cross attention: queries of the decoder, keys of the encoder."""


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
    """``--block-size`` when the user gave one, or, up to 0.17.1, what is decided before the model is built; a
    default never filters backends."""
    mla: bool = False
    sparse: bool = False
    """MLA over the tokens that an indexer selects (DeepSeek V3.2, GLM-5)."""
    attn_type: AttentionType = AttentionType.DECODER
    sinks: bool = False
    mm_prefix: bool = False
    """Attention is bidirectional over the tokens of one image (Gemma 3, multimodal Gemma 4)."""
    non_causal: bool = False
    """Some tokens that are computed together see each other both ways (DiffusionGemma)."""
    sliding_window: bool = False
    logits_soft_cap: bool = False
    shares_cache: bool = False
    """The layer reads the cache of an earlier one."""
    head_size_v: int | None = None
    """Where values are of another size than keys (MiMo V2); None: the same."""
    qk_nope_head_dim: int | None = None
    """MLA only, as are the next three."""
    qk_rope_head_dim: int | None = None
    v_head_dim: int | None = None
    kv_lora_rank: int | None = None
    index_topk: int | None = None
    """Tokens, or blocks of them, that the model's indexer selects; None: it has none."""
    group_heads: int | None = None
    """Heads whose outputs one matrix projects (DeepSeek V4); None: there are no such groups."""
    model_head_size: int | None = None
    """The head size of the model as a whole, where its layers differ; None: the layer's own."""
    flash_attn_version: int | None = None
    """The FlashAttention version that the engine forces for this model (see ``forced_attention``)."""
    decode_context_parallel_size: int = 1
    """Ranks that share the tokens of a sequence."""

    @property
    def context_parallel(self) -> bool:
        """Several ranks share the tokens of a sequence."""
        return self.decode_context_parallel_size > 1
