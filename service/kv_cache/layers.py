"""From the model's layers to what each keeps in the cache."""

from service.architecture.layers import Attention, LatentAttention
from service.architecture.model import ModelArchitecture
from service.backends.assignment import Backends, layer_cache_dtype
from service.backends.backend import AttentionBackend
from service.engines.rules import SlidingWindowBlock
from service.kv_cache.block_size import (
    BlockSizes,
    kv_heads_per_rank,
    largest_kernel_block,
    state_bytes,
)
from service.kv_cache.formats import CacheFormat, cache_format, sized_by
from service.kv_cache.specs import AttentionSpec, CacheKind, LayerCache, LayerSpec, StateSpec
from service.launch.serving import Serving

STATES_KEPT = {"none": 1, "align": 2}
"""States of one request by mamba_cache_mode (vLLM 0.32.0, MambaSpec.max_memory_usage_bytes)."""


def layer_caches(
    architecture: ModelArchitecture, serving: Serving, backends: Backends, sizes: BlockSizes
) -> tuple[LayerCache, ...]:
    """Return the layers that own a cache, in the order the engine builds them."""
    caches = []
    for index, layer in enumerate(architecture.layers):
        mixer = layer.mixer
        spec: LayerSpec
        if isinstance(mixer, Attention):
            if mixer.shares_cache_of is not None:
                continue
            spec = _attention(index, mixer, serving, backends[index], sizes)
        elif isinstance(mixer, LatentAttention):
            spec = _latent(index, mixer, serving, backends[index], sizes)
        else:
            spec = StateSpec(
                block_size=_state_block(serving, sizes),
                state_bytes=state_bytes(mixer, serving),
                pages_per_request=STATES_KEPT[serving.mamba_cache_mode],
                page_size_padded=sizes.state_page,
            )
        caches.append(LayerCache(index, spec))
    return tuple(caches)


def _state_block(serving: Serving, sizes: BlockSizes) -> int:
    if serving.mamba_cache_mode == "align":
        return sizes.block_size
    return serving.mamba_block_size or serving.max_model_len


def _latent(
    index: int, mixer: LatentAttention, serving: Serving, backend: AttentionBackend, sizes: BlockSizes
) -> AttentionSpec:
    return AttentionSpec(
        kind=CacheKind.MLA_ATTENTION,
        block_size=sizes.block_size,
        num_kv_heads=1,
        head_size=mixer.head_size,
        head_size_v=0,
        format=cache_format(layer_cache_dtype(index, mixer, serving), serving.dtype),
        strided=backend.indexes_kv_by_block_stride,
    )


def _attention(
    index: int, mixer: Attention, serving: Serving, backend: AttentionBackend, sizes: BlockSizes
) -> AttentionSpec:
    dtype = layer_cache_dtype(index, mixer, serving)
    exact = cache_format(dtype, serving.dtype)
    if mixer.sliding_window is not None:
        counted = sized_by(exact, serving.rules.sliding_window_packing)
        return _sliding(mixer, serving, backend, sizes, counted)
    return AttentionSpec(
        kind=CacheKind.FULL_ATTENTION,
        block_size=sizes.block_size,
        num_kv_heads=kv_heads_per_rank(mixer, serving),
        head_size=mixer.head_size,
        head_size_v=mixer.head_size_v,
        format=exact,
        strided=backend.indexes_kv_by_block_stride,
    )


def _sliding(
    mixer: Attention, serving: Serving, backend: AttentionBackend, sizes: BlockSizes, counted: CacheFormat
) -> AttentionSpec:
    heads = kv_heads_per_rank(mixer, serving)
    per_token = heads * counted.head_bytes(mixer.head_size, mixer.head_size_v)
    return AttentionSpec(
        kind=CacheKind.SLIDING_WINDOW,
        block_size=_sliding_block(serving, backend, sizes, per_token),
        num_kv_heads=heads,
        head_size=mixer.head_size,
        head_size_v=mixer.head_size_v,
        format=counted,
        sliding_window=mixer.sliding_window,
        page_size_padded=sizes.skipped_page,
        strided=backend.indexes_kv_by_block_stride,
    )


def _sliding_block(serving: Serving, backend: AttentionBackend, sizes: BlockSizes, per_token: int) -> int:
    choice = serving.rules.sliding_window_block
    if choice is SlidingWindowBlock.MODEL:
        return sizes.block_size
    if choice is SlidingWindowBlock.SMALLEST_KERNEL and sizes.skipped_page is None:
        return backend.kernel_block_sizes.minimum
    return largest_kernel_block(backend, per_token, sizes.skipped_page or per_token * sizes.block_size)
