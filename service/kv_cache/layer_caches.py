"""The caches of a model's layers."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from math import gcd
from operator import itemgetter
from typing import Final

from service.architecture.layers.attention import Attention, PackedConvolutions
from service.architecture.layers.cache_part import CachePart
from service.architecture.layers.compressed_attention import CompressedAttention, SharedCompressedAttention
from service.architecture.layers.decoder_layer import TokenMixer
from service.architecture.layers.mla import MultiHeadLatentAttention
from service.architecture.layers.recurrence import NgramConvolution, Recurrence
from service.architecture.long_lists import LONG_LISTS
from service.architecture.model import ModelArchitecture
from service.backends.backend import AttentionBackend, Backends
from service.backends.layer_cache_dtype import common_cache_dtype, layer_cache_dtype
from service.backends.layer_parts import built_parts
from service.engine_config.engine_config import EngineConfig
from service.engines.refusal import EngineRefusal, Stage
from service.kv_cache.alignment import BlockSizes
from service.kv_cache.compressed import compressed_cache
from service.kv_cache.formats import (
    CacheFormat,
    Slot,
    cache_format,
    of_heads,
    unpacked,
)
from service.kv_cache.head_caches import head_cache, kernel_block
from service.kv_cache.indexers import (
    INDEXER_KERNEL_BLOCK,
    block_indexed,
    group_indexed,
    has_fp4_keys,
    indexed,
    pooled,
    with_regions,
)
from service.kv_cache.recurrent_states import state_bytes, state_checkpoint
from service.kv_cache.shared_compressed import SharedCaches, token_rows
from service.kv_cache.specs import (
    AttentionSpec,
    CacheKind,
    LayerSpec,
    SpecLayers,
    StateSpec,
    merge_equal,
)

STATES_RETAINED: Final[Mapping[str, int | None]] = {"none": 1, "align": 2, "all": None}
"""States of one request by mamba_cache_mode, None for one a block (vLLM 0.15.0, MambaSpec)."""


STATES_WITH_DRAFTS: Final = "qwen3_next"
"""The model type whose states always worked with draft tokens (vLLM 0.10.2, get_kv_cache_spec)."""


def layer_caches(
    architecture: ModelArchitecture,
    engine_config: EngineConfig,
    backends: Backends,
    sizes: BlockSizes,
    layers: range | None = None,
) -> tuple[SpecLayers, ...]:
    """Return the caches of the model's layers by spec, in the order in which the engine first builds each.

    Args:
        architecture: the model.
        engine_config: the start.
        backends: the backend of every layer.
        sizes: block and page sizes.
        layers: the layers of one pipeline stage; all when left out.

    Raises:
        EngineRefusal: draft tokens do not go with the model's states (stage ``page_size``).
    """
    caches = list[SpecLayers]()
    for mixer, indices in _alike(architecture, layers, engine_config):
        specs: tuple[LayerSpec, ...]
        if isinstance(mixer, Recurrence):
            specs = (_state(mixer, architecture.model_type, engine_config, sizes),)
        else:
            specs = _stored(mixer, engine_config, backends[indices[0], CachePart.ATTENTION], sizes)
        caches.extend(SpecLayers(spec, indices) for spec in specs)
    if engine_config.rules.groups.states_come_last:
        caches.sort(key=lambda cache: isinstance(cache.spec, StateSpec))
    return merge_equal(caches)


@dataclass(frozen=True, slots=True)
class _Owners:
    """Layers that own a cache and have equal mixers."""

    mixer: TokenMixer | Recurrence
    indices: tuple[int, ...]
    """Positions in the decoder, ascending."""
    places: tuple[tuple[int, int], ...]
    """Of each, when it is built, and its index."""


@LONG_LISTS.emptied
@lru_cache(maxsize=256)
def _owners(architecture: ModelArchitecture, layers: range | None) -> tuple[_Owners, ...]:
    """Return the owners of caches among some layers, in the order in which the first of each is built."""
    found: dict[tuple[TokenMixer | Recurrence, bool], list[tuple[int, int]]] = {}
    for place, (index, mixer) in enumerate(_built_owners(architecture)):
        if layers is None or index in layers:
            # The backends of a draft's layers may differ from those of equal layers of the model.
            drafts = index >= len(architecture.layers)
            found.setdefault((mixer, drafts), []).append((place, index))
    return tuple(
        _Owners(mixer, tuple(sorted(index for _, index in places)), tuple(places))
        for (mixer, _), places in found.items()
    )


def _alike(
    architecture: ModelArchitecture, layers: range | None, engine_config: EngineConfig
) -> Iterable[tuple[TokenMixer | Recurrence, tuple[int, ...]]]:
    """Return mixer and indices of layers with equal mixers and cache dtypes, in the order they are built."""
    owners = _owners(architecture, layers)
    if common_cache_dtype(engine_config) is not None:
        return ((owner.mixer, owner.indices) for owner in owners)
    parts = list[tuple[int, TokenMixer | Recurrence, tuple[int, ...]]]()
    for owner in owners:
        by_dtype: dict[str, list[tuple[int, int]]] = {}
        for place, index in owner.places:
            dtype = (
                ""
                if isinstance(owner.mixer, Recurrence)
                else layer_cache_dtype(architecture.layer_number(index), owner.mixer, engine_config)
            )
            by_dtype.setdefault(dtype, []).append((place, index))
        for places in by_dtype.values():
            parts.append((places[0][0], owner.mixer, tuple(sorted(index for _, index in places))))
    return ((mixer, indices) for _, mixer, indices in sorted(parts, key=itemgetter(0)))


def _built_owners(
    architecture: ModelArchitecture,
) -> Iterator[tuple[int, TokenMixer | Recurrence]]:
    # Blocks that several layers run are built before any layer.
    yield from (
        (index, layer.mixer)
        for index, layer in enumerate(architecture.layers)
        if layer.shared is not None and isinstance(layer.mixer, Attention)
    )
    for index, layer in enumerate(architecture.built_layers):
        mixers = (layer.beside,) if layer.shared is not None else (layer.before, layer.mixer, layer.beside)
        for mixer in mixers:
            if getattr(mixer, "encodes", False):
                continue
            if isinstance(mixer, Attention) and mixer.shares_cache_of is not None:
                continue
            if isinstance(mixer, TokenMixer | Recurrence):
                yield index, mixer


def _stored(
    mixer: TokenMixer, engine_config: EngineConfig, backend: AttentionBackend, sizes: BlockSizes
) -> tuple[AttentionSpec, ...]:
    """Return the caches of an attention layer in the order the engine builds them."""
    exact = cache_format(backend.cache_dtype, engine_config.dtype)
    if backend.plain_cache:
        exact = unpacked(exact)
    if isinstance(mixer, CompressedAttention):
        return tuple(_compressed(mixer, engine_config, backend, sizes, exact))
    if isinstance(mixer, Attention):
        own = head_cache(mixer, engine_config, backend, sizes, of_heads(exact))
        if mixer.region_indexer is not None:
            return with_regions(mixer.region_indexer, own)
        return *_beside_heads(mixer, engine_config, sizes), own
    own = _mla_caches(mixer, engine_config, backend, sizes, exact)
    selects = CachePart.INDEXER in built_parts(mixer, engine_config.rules.specs)
    if mixer.indexer is None or not selects:
        return (own,)
    if mixer.indexer.group_size > 1:
        if engine_config.rules.specs.padded_rows_align_blocks:
            own = replace(own, block_alignment=_rows(own, backend))
        return pooled(mixer.indexer, engine_config, sizes, own)
    keys = indexed(mixer.indexer, engine_config, sizes)
    if own.block_alignment > 1 and mixer.row_size is not None and keys.block_size > INDEXER_KERNEL_BLOCK:
        # Where layers share a block, kernels of a fixed size read whole pieces of it.
        keys = replace(keys, block_alignment=INDEXER_KERNEL_BLOCK * keys.bytes_per_token)
    return keys, own


def _compressed(
    mixer: CompressedAttention,
    engine_config: EngineConfig,
    backend: AttentionBackend,
    sizes: BlockSizes,
    exact: CacheFormat,
) -> Iterator[AttentionSpec]:
    """Yield the caches of a layer with compressed attention in the order the engine builds them."""
    size, fp4_keys = sizes.block_size, has_fp4_keys(engine_config)
    rows = token_rows(backend, engine_config) if isinstance(mixer, SharedCompressedAttention) else None
    kernel = gcd(kernel_block(backend, engine_config) or size, size)
    for part in built_parts(mixer, engine_config.rules.specs):
        if part is CachePart.ATTENTION and not mixer.compresses:
            continue
        if isinstance(mixer, SharedCompressedAttention) and rows is not None:
            drafted = engine_config.speculative_tokens
            spec = SharedCaches(mixer, rows, size, drafted, fp4_keys=fp4_keys).of(part)
        else:
            spec = compressed_cache(part, mixer, exact, size, fp4_keys=fp4_keys)
        if kernel < size and part in {CachePart.ATTENTION, CachePart.INDEXER}:
            # Where layers share a block, kernels of a fixed size read whole pieces of it.
            spec = replace(spec, block_alignment=replace(spec, block_size=kernel).page_size)
        yield spec


def _beside_heads(
    mixer: Attention, engine_config: EngineConfig, sizes: BlockSizes
) -> tuple[AttentionSpec, ...]:
    if mixer.block_indexer is not None:
        return (block_indexed(mixer.block_indexer, engine_config, sizes),)
    if mixer.group_indexer is not None:
        return group_indexed(mixer.group_indexer, engine_config, sizes)
    if mixer.convolutions is not None:
        return (_convolved(mixer.convolutions, mixer, engine_config),)
    return ()


def _convolved(
    convolutions: PackedConvolutions, mixer: Attention, engine_config: EngineConfig
) -> AttentionSpec:
    """Return the cache of a layer's short convolutions: a block as long as their kernel.

    Source: vLLM 0.26.0 to 0.33.0, models/inkling/nvidia/sconv_swa_attn.py InklingConvState.
    """
    return AttentionSpec(
        kind=CacheKind.SLIDING_WINDOW,
        block_size=convolutions.kernel,
        num_kv_heads=mixer.num_kv_heads // engine_config.tensor_parallel_size,
        head_size=convolutions.head_size(mixer.num_kv_heads, mixer.head_size),
        head_size_v=0,
        format=cache_format("auto", engine_config.dtype),
        sliding_window=convolutions.kernel,
    )


def _rows(own: AttentionSpec, backend: AttentionBackend) -> int:
    """Return the bytes of which a block over all layers is a whole number.

    Source: vLLM 0.32.0, KVCacheSpec.get_block_stride_alignment.
    """
    rows = gcd(backend.packed_rows, own.block_size)
    return max(own.block_alignment, rows * own.bytes_per_token)


def _state(mixer: Recurrence, model_type: str, engine_config: EngineConfig, sizes: BlockSizes) -> StateSpec:
    mode, rules, size = engine_config.mamba_cache_mode, engine_config.rules, state_bytes(mixer, engine_config)
    words = rules.states.drafted_refusal
    if engine_config.speculation is not None and words and model_type != STATES_WITH_DRAFTS:
        raise EngineRefusal(Stage.PAGE_SIZE, words, type="NotImplementedError")
    pages = STATES_RETAINED[mode]
    if pages is not None and state_checkpoint(mixer, engine_config) is not None:
        pages += 1
    return StateSpec(
        block_size=sizes.state_block or engine_config.max_model_len,
        state_bytes=size,
        pages_per_request=pages,
        page_size_padded=sizes.state_page,
        speculative_pages=engine_config.speculative_tokens if mode in rules.states.drafted else 0,
        replicated=isinstance(mixer, NgramConvolution),
    )


def _mla_caches(
    mixer: MultiHeadLatentAttention,
    engine_config: EngineConfig,
    backend: AttentionBackend,
    sizes: BlockSizes,
    exact: CacheFormat,
) -> AttentionSpec:
    windowed = mixer.sliding_window is not None
    size = mixer.row_size or mixer.head_size
    return AttentionSpec(
        kind=CacheKind.SLIDING_WINDOW_MLA if windowed else CacheKind(engine_config.rules.specs.mla_kind),
        block_size=sizes.block_size,
        num_kv_heads=1,
        head_size=size,
        head_size_v=0,
        format=exact,
        sliding_window=mixer.sliding_window,
        indexes_by_block_stride=backend.indexes_kv_by_block_stride,
        block_alignment=exact.head_bytes(size, 0)
        if _aligns_blocks(mixer, engine_config, backend, exact)
        else 1,
    )


def _aligns_blocks(
    mixer: MultiHeadLatentAttention,
    engine_config: EngineConfig,
    backend: AttentionBackend,
    exact: CacheFormat,
) -> bool:
    rules = engine_config.rules
    if mixer.row_size is not None:
        return rules.specs.padded_rows_align_blocks and mixer.indexer is not None
    major, slots = engine_config.compute_capability.major, isinstance(exact, Slot)
    return any(case.applies(backend.name, major, slots=slots) for case in rules.specs.row_aligned_blocks)
