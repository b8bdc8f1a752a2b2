"""Which layers share a block table."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from service.engines.refusal import EngineRefusal, Stage
from service.engines.rules.groups import GroupMembers, GroupRules
from service.engines.rules.pages import PageRules
from service.kv_cache.formats import CacheFormat, PlainFormat, unpacked
from service.kv_cache.groups import Group, type_key
from service.kv_cache.packing import pack_layers
from service.kv_cache.specs import (
    WINDOWED_KINDS,
    AttentionSpec,
    CacheKind,
    LayerSpec,
    SpecLayers,
    merge_equal,
)
from service.kv_cache.unification import unify_page_sizes
from service.units import ceil_div

FULL_KINDS: Final = frozenset({CacheKind.FULL_ATTENTION, CacheKind.MLA_ATTENTION})
"""Kinds that keep every token."""
LOCAL_KINDS: Final = WINDOWED_KINDS | {CacheKind.CHUNKED_LOCAL_ATTENTION}
"""Kinds that keep only part of a sequence."""


def group_layers(
    caches: tuple[SpecLayers, ...], rules: GroupRules, pages: PageRules, *, hybrid_manager: bool = True
) -> tuple[Group, ...]:
    """Split the cache-owning layers of the whole model into groups.

    Source: vLLM 0.19.0 to 0.32.0, v1/core/kv_cache_utils.py get_kv_cache_groups.

    Raises:
        EngineRefusal: layers cannot be promoted to one kind, or pages cannot be unified.
    """
    if not hybrid_manager:
        caches = _promote(caches, rules)
    if len(caches) == 1:
        return (Group.of(caches),)
    if rules.uniform_type and _of_one_type(caches):
        return (Group.of(caches, uniform_type=True),)
    packed = pack_layers(caches, pages)
    if packed is not None:
        return packed
    try:
        unified = unify_page_sizes(caches, pages)
    except EngineRefusal:
        fallback = _as_full(caches, rules) if rules.windows_become_full else None
        if fallback is None:
            raise
        return fallback
    return _of_one_page_size(unified, rules)


def _as_full(caches: tuple[SpecLayers, ...], rules: GroupRules) -> tuple[Group, ...] | None:
    """Return one group in which windows beside MLA keep every token, or ``None`` for other mixtures.

    Source: vLLM 0.27.0 to 0.33.0, _try_get_full_allocation_fallback_groups.
    """
    kinds = {cache.spec.kind for cache in caches}
    if kinds & {CacheKind.SLIDING_WINDOW_MLA, CacheKind.CHUNKED_LOCAL_ATTENTION}:
        return None
    if not {CacheKind.MLA_ATTENTION, CacheKind.SLIDING_WINDOW} <= kinds:
        return None
    try:
        caches = _promote(caches, rules)
    except EngineRefusal:
        return None
    return (Group.of(caches, uniform_type=True),)


def _of_one_type(caches: Sequence[SpecLayers]) -> bool:
    return len({type_key(cache.spec) for cache in caches}) == 1


def _of_one_kind(caches: Sequence[SpecLayers], rules: GroupRules) -> bool:
    """Whether the layers can be one group without bringing pages to one size."""
    return len(caches) == 1 or (rules.uniform_type and _of_one_type(caches))


def _of_one_page_size(caches: tuple[SpecLayers, ...], rules: GroupRules) -> tuple[Group, ...]:
    counts = [cache.count for cache in caches]
    smallest, largest = min(counts), max(counts)
    size = largest if largest * 100 < smallest * rules.size_percent else smallest
    split = _CUTS[rules.members]
    return tuple(
        Group.of((SpecLayers(cache.spec, part),)) for cache in caches for part in split(cache.indices, size)
    )


def _contiguous(layers: tuple[int, ...], size: int) -> Iterator[tuple[int, ...]]:
    return (layers[first : first + size] for first in range(0, len(layers), size))


def _strided(layers: tuple[int, ...], size: int) -> Iterator[tuple[int, ...]]:
    count = ceil_div(len(layers), size)
    return (layers[first::count] for first in range(count))


_CUTS = {GroupMembers.CONTIGUOUS: _contiguous, GroupMembers.STRIDED: _strided}


def _promote(caches: tuple[SpecLayers, ...], rules: GroupRules) -> tuple[SpecLayers, ...]:
    """Turn sliding and chunked layers into full ones where both occur.

    Source: vLLM 0.19.0 to 0.32.0, unify_hybrid_kv_cache_specs.
    """
    if _of_one_kind(caches, rules):
        return caches
    full_blocks = {cache.spec.block_size for cache in caches if cache.spec.kind in FULL_KINDS}
    if full_blocks:
        if rules.window_promotion_failure and any(_is_mla_window(cache.spec) for cache in caches):
            raise EngineRefusal(Stage.GROUPING, rules.window_promotion_failure, type="TypeError")
        block_size = full_blocks.pop() if rules.promotion_takes_full_block and len(full_blocks) == 1 else None
        caches = merge_equal(
            SpecLayers(_promoted(cache.spec, block_size, rules), cache.indices) for cache in caches
        )
    if not _of_one_kind(caches, rules):
        raise EngineRefusal(Stage.GROUPING, rules.promotion_refusal)
    return caches


def _whole_format(spec: AttentionSpec) -> CacheFormat:
    """Return the format of a layer that keeps every token now.

    Source: vLLM 0.25.0 to 0.27.1, where FullAttentionSpec knows int4_per_token_head and a window's spec not.
    """
    return spec.format if spec.whole_format is None else spec.whole_format


def _is_mla_window(spec: LayerSpec) -> bool:
    return spec.kind is CacheKind.SLIDING_WINDOW_MLA


def _promoted(spec: LayerSpec, block_size: int | None, rules: GroupRules) -> LayerSpec:
    if not isinstance(spec, AttentionSpec) or spec.kind not in LOCAL_KINDS:
        return spec
    return replace(
        spec,
        kind=CacheKind.MLA_ATTENTION if _is_mla_window(spec) else CacheKind.FULL_ATTENTION,
        block_size=block_size or spec.block_size,
        format=_whole_format(spec) if spec.kind in rules.promotion_keeps_packing else unpacked(spec.format),
        whole_format=None,
        quantization_forgotten=spec.kind in rules.promotion_forgets_quantization
        and spec.format == PlainFormat(1),
        sliding_window=None,
        attention_chunk_size=None,
        indexes_by_block_stride=spec.indexes_by_block_stride and rules.promotion_keeps_block_stride,
    )
