"""The cache of a layer that attends by heads: whole, in chunks, or in a sliding window."""

from dataclasses import replace

from service.architecture.layers.attention import Attention
from service.backends.backend import AttentionBackend
from service.engine_config.engine_config import EngineConfig
from service.engines.rules.specs import SlidingWindowBlock
from service.kv_cache.alignment import BlockSizes, kv_heads_per_rank
from service.kv_cache.block_size import sliding_block_within
from service.kv_cache.formats import CacheFormat, Packing, sized_by
from service.kv_cache.specs import AttentionSpec, CacheKind


def head_cache(
    mixer: Attention,
    engine_config: EngineConfig,
    backend: AttentionBackend,
    sizes: BlockSizes,
    exact: CacheFormat,
) -> AttentionSpec:
    """Return the spec of one layer's cache."""
    if mixer.sliding_window is not None:
        counted = sized_by(exact, engine_config.rules.specs.sliding_window_packing)
        spec = _sliding(mixer, engine_config, backend, sizes, counted)
        return replace(spec, whole_format=exact) if exact.packing is Packing.INT4_PER_TOKEN_HEAD else spec
    chunked = mixer.attention_chunk_size is not None
    return AttentionSpec(
        kind=CacheKind.CHUNKED_LOCAL_ATTENTION if chunked else _whole(mixer),
        block_size=sizes.block_size,
        num_kv_heads=kv_heads_per_rank(mixer, engine_config),
        head_size=mixer.head_size,
        head_size_v=_value_size(CacheKind.FULL_ATTENTION, mixer, engine_config),
        format=sized_by(exact, engine_config.rules.specs.chunk_packing) if chunked else exact,
        attention_chunk_size=mixer.attention_chunk_size,
        indexes_by_block_stride=backend.indexes_kv_by_block_stride,
        kernel_block=kernel_block(backend, engine_config),
    )


def _sliding(
    mixer: Attention,
    engine_config: EngineConfig,
    backend: AttentionBackend,
    sizes: BlockSizes,
    counted: CacheFormat,
) -> AttentionSpec:
    heads = kv_heads_per_rank(mixer, engine_config)
    value_size = _value_size(CacheKind.SLIDING_WINDOW, mixer, engine_config)
    per_token = heads * counted.head_bytes(mixer.head_size, value_size)
    return AttentionSpec(
        kind=CacheKind.SLIDING_WINDOW,
        block_size=_sliding_block(
            engine_config, backend, sizes, per_token, specified=mixer.convolutions is not None
        ),
        num_kv_heads=heads,
        head_size=mixer.head_size,
        head_size_v=value_size,
        format=counted,
        sliding_window=_window(mixer, engine_config),
        page_size_padded=sizes.skipped_page,
        indexes_by_block_stride=backend.indexes_kv_by_block_stride,
        kernel_block=kernel_block(backend, engine_config),
    )


def _window(mixer: Attention, engine_config: EngineConfig) -> int | None:
    one_more = mixer.window_excludes_itself and engine_config.rules.specs.windows_count_earlier_tokens
    return None if mixer.sliding_window is None else mixer.sliding_window + one_more


def _whole(mixer: Attention) -> CacheKind:
    if mixer.cross:
        return CacheKind.CROSS_ATTENTION
    return CacheKind.SINK_FULL_ATTENTION if mixer.stored_sinks else CacheKind.FULL_ATTENTION


def kernel_block(backend: AttentionBackend, engine_config: EngineConfig) -> int | None:
    """Return the block size of the backend's kernels where the release's specs state it."""
    sizes = backend.spec_block_sizes
    specified = engine_config.rules.specs.specs_state_kernel_block and not sizes.multiples_of
    return max(sizes.fixed) if specified else None


def _value_size(kind: CacheKind, mixer: Attention, engine_config: EngineConfig) -> int:
    padded = engine_config.rules.specs.pads_values and not mixer.stored_sinks
    return (
        mixer.head_size_v
        if kind in engine_config.rules.specs.own_value_size and not padded
        else mixer.head_size
    )


def _sliding_block(
    engine_config: EngineConfig,
    backend: AttentionBackend,
    sizes: BlockSizes,
    per_token: int,
    *,
    specified: bool,
) -> int:
    choice = SlidingWindowBlock.MODEL if specified else engine_config.rules.specs.sliding_window_block
    if choice is SlidingWindowBlock.MODEL:
        return sizes.block_size
    if choice is SlidingWindowBlock.SMALLEST_KERNEL:
        return sliding_block_within(backend, per_token, sizes.skipped_page, stretch=False)
    budget = sizes.skipped_page or per_token * sizes.block_size
    return sliding_block_within(backend, per_token, budget, stretch=True)
