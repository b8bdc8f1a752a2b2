"""The attention backend of one layer: what it asks of a backend, and which one the engine selects for it."""

from typing import Final

from service.architecture.layers.attention import Attention
from service.architecture.layers.compressed_attention import CompressedAttention, SharedCompressedAttention
from service.architecture.layers.decoder_layer import TokenMixer
from service.architecture.layers.mla import MultiHeadLatentAttention
from service.backends.attention_request import AttentionRequest, AttentionType
from service.backends.backend import AttentionBackend
from service.backends.backend_rules import Forced
from service.backends.selection import select_backend
from service.backends.unselected import UnselectedLayer, unselected_backend
from service.engine_config.engine_config import EngineConfig
from service.engines.refusal import EngineRefusal, Stage
from service.engines.rules.specs import SpecRules

SINK_BACKEND: Final = "FLASHMLA_SPARSE"
"""vLLM 0.29.0 to 0.33.0, HYV4FlashMLASparseBackend goes by the name of what it extends."""
NO_SPARSE_BACKEND: Final = (
    "HYV4 sparse attention was requested, but no valid sparse MLA backend is available for current "
    "runtime/config. Refusing to fall back to dense attention."
)


def _attention_type(mixer: Attention) -> AttentionType:
    if mixer.encodes:
        return AttentionType.ENCODER_ONLY
    return AttentionType.ENCODER_DECODER if mixer.cross else AttentionType.DECODER


def select_for_layer(
    mixer: TokenMixer, request: AttentionRequest, chosen: str | None, engine_config: EngineConfig
) -> AttentionBackend:
    """Return the backend of a layer: the one that its class names, else the one selected.

    Args:
        mixer: the layer.
        request: what it asks of a backend.
        chosen: the backend that the user or the release demands; ``None``: the first valid one.
        engine_config: the start.

    Raises:
        EngineRefusal: no backend serves the layer.
    """
    kind = class_named_backend(mixer, engine_config.rules.specs)
    if kind is not None:
        return unselected_backend(
            kind,
            engine_config.release,
            engine_config.compute_capability,
            request=request,
            chosen=chosen,
            device_name=engine_config.device_name,
        )
    if isinstance(mixer, MultiHeadLatentAttention) and mixer.sinks:
        return _with_sinks(request, chosen, engine_config)
    selected = _selected(request, chosen, engine_config)
    if isinstance(mixer, MultiHeadLatentAttention) and mixer.row_size is not None:
        # What is selected is built first, and then replaced.
        return unselected_backend(
            UnselectedLayer.PADDED_MLA,
            engine_config.release,
            engine_config.compute_capability,
            request=request,
        )
    return selected


def _selected(request: AttentionRequest, chosen: str | None, engine_config: EngineConfig) -> AttentionBackend:
    return select_backend(
        request,
        engine_config.release,
        engine_config.compute_capability,
        chosen=chosen,
        device_name=engine_config.device_name,
    )


def _with_sinks(
    request: AttentionRequest, chosen: str | None, engine_config: EngineConfig
) -> AttentionBackend:
    """Return the backend of MLA with sinks: the one with sinks if it is valid, else the selected one.

    Source: vLLM 0.29.0 to 0.33.0, HYV4MLAAttention._resolve_sink_backend.

    Raises:
        EngineRefusal: sparse attention has no backend at all.
    """
    try:
        selected = _selected(request, chosen, engine_config)
    except EngineRefusal as refusal:
        if not request.sparse:
            raise
        raise EngineRefusal(
            Stage.MODEL, NO_SPARSE_BACKEND, type="RuntimeError", find_fixes=refusal.find_fixes
        ) from None
    try:
        return _selected(request, SINK_BACKEND, engine_config)
    except EngineRefusal:
        return selected


def class_named_backend(mixer: TokenMixer, rules: SpecRules) -> UnselectedLayer | None:
    """Return the kind of a layer whose class names its backend itself."""
    if isinstance(mixer, SharedCompressedAttention):
        return UnselectedLayer.DEEPSEEK_V41_COMPRESSED
    if isinstance(mixer, CompressedAttention):
        return UnselectedLayer.DEEPSEEK_V4_COMPRESSED
    if isinstance(mixer, MultiHeadLatentAttention):
        return None if mixer.sliding_window is None else UnselectedLayer.WINDOWED_MLA
    differ = mixer.head_size_v != mixer.head_size and not rules.pads_values
    named = {
        UnselectedLayer.BLOCK_SPARSE: mixer.block_indexer is not None,
        UnselectedLayer.GROUP_SPARSE: mixer.group_indexer is not None,
        UnselectedLayer.REGION_SPARSE: mixer.region_indexer is not None,
        UnselectedLayer.PINNED_FLASH_ATTENTION: mixer.flash,
        UnselectedLayer.STORED_SINKS: bool(mixer.stored_sinks),
        UnselectedLayer.CONVOLVED_ATTENTION: mixer.convolutions is not None,
        UnselectedLayer.DIFFERING_VALUES: differ,
    }
    return next((kind for kind, applies in named.items() if applies), None)


def layer_request(
    mixer: TokenMixer, dtype: str, engine_config: EngineConfig, model_head_size: int, forced: Forced
) -> AttentionRequest:
    """Return what a layer asks of a backend on one rank, in the engine's terms."""
    num_heads = mixer.num_heads // engine_config.tensor_parallel_size
    if isinstance(mixer, CompressedAttention):
        return AttentionRequest(
            head_size=mixer.head_size,
            dtype=engine_config.dtype,
            kv_cache_dtype=dtype,
            num_heads=num_heads,
            num_kv_heads=1,
            block_size=engine_config.block_size,
            mla=True,
            sparse=True,
            group_heads=mixer.num_heads // mixer.output_groups,
        )
    if isinstance(mixer, MultiHeadLatentAttention):
        return AttentionRequest(
            head_size=mixer.head_size,
            dtype=engine_config.dtype,
            kv_cache_dtype=dtype,
            num_heads=num_heads,
            num_kv_heads=1,
            block_size=engine_config.block_size,
            mla=True,
            sparse=mixer.indexer is not None,
            index_topk=None if mixer.indexer is None else mixer.indexer.top_k,
            qk_nope_head_dim=mixer.qk_nope_head_dim,
            qk_rope_head_dim=mixer.qk_rope_head_dim,
            v_head_dim=mixer.weights.v_head_dim,
            kv_lora_rank=mixer.kv_lora_rank,
            flash_attn_version=forced.flash_attn_version,
            decode_context_parallel_size=engine_config.decode_context_parallel_size,
        )
    return AttentionRequest(
        head_size=mixer.head_size,
        head_size_v=mixer.head_size_v,
        dtype=engine_config.dtype,
        kv_cache_dtype=dtype,
        num_heads=num_heads,
        num_kv_heads=max(1, mixer.num_kv_heads // engine_config.tensor_parallel_size),
        block_size=engine_config.block_size,
        attn_type=_attention_type(mixer),
        sinks=mixer.sinks,
        mm_prefix=engine_config.bidirectional_media,
        non_causal=mixer.canvas,
        sliding_window=mixer.sliding_window is not None,
        logits_soft_cap=mixer.logits_soft_cap,
        shares_cache=mixer.shares_cache_of is not None,
        index_topk=None if mixer.block_indexer is None else mixer.block_indexer.top_k,
        model_head_size=model_head_size,
        flash_attn_version=forced.flash_attn_version,
        decode_context_parallel_size=engine_config.decode_context_parallel_size,
    )
