"""Groups of layers whose pages of several sizes lie side by side (DeepSeek V4, Qwen4 Exp)."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import lcm
from typing import assert_never

from service.engines.engine_rules import EngineRules
from service.engines.refusal import EngineRefusal, Stage
from service.engines.rules.pages import BlockBytes, PackedGroups
from service.kv_cache.groups import Group, type_key
from service.kv_cache.specs import (
    WINDOWED_KINDS,
    AttentionSpec,
    CacheKind,
    LayerCache,
    distinct_specs,
    page_sizes,
)
from service.units import ceil_div, round_up

MLA_FIRST = frozenset({PackedGroups.MLA_FIRST_PADDED, PackedGroups.MLA_FIRST})
PACKED_KINDS = frozenset({CacheKind.SLIDING_WINDOW_MLA, CacheKind.CIRCULAR_BUFFER})
"""Kinds whose backends want all layers of a block side by side."""


@dataclass(frozen=True, slots=True)
class _Bucket:
    """Layers of one type, and so of as many token slots, with pages of one or several sizes."""

    layers: tuple[LayerCache, ...]

    @property
    def mla(self) -> bool:
        """Whether these are the compressed tokens."""
        return self.layers[0].spec.kind is CacheKind.MLA_ATTENTION

    @property
    def counts(self) -> Counter[int]:
        """Layers by page size, in the order in which the sizes appear."""
        return Counter(layer.spec.page_size for layer in self.layers)

    @property
    def repeats(self) -> int:
        """Layers of the page size that most have."""
        return max(self.counts.values())

    @property
    def balanced(self) -> bool:
        """Whether there are as many layers of each page size."""
        return len(set(self.counts.values())) == 1

    def widest(self, count: int) -> int:
        """Return the bytes of a block over the largest of some groups that the layers are dealt out to."""
        return sum(ceil_div(layers, count) * size for size, layers in self.counts.items())

    def split(self, count: int) -> Iterable[tuple[LayerCache, ...]]:
        """Deal out the layers to some groups, one of each page size at a time."""
        by_size: dict[int, list[LayerCache]] = {size: [] for size in self.counts}
        for layer in self.layers:
            by_size[layer.spec.page_size].append(layer)
        rounds = list(zip(*by_size.values(), strict=False))
        return (tuple(layer for dealt in rounds[first::count] for layer in dealt) for first in range(count))


def bytes_per_block(stage: tuple[Group, ...], packed: BlockBytes) -> int:
    """Return the bytes that one block id costs on a stage: those of its widest group.

    ``packed`` says how they count where pages of several sizes lie side by side.
    """
    if len(stage) > 1 and stage[0].uniform_type:
        size = packed_block_bytes(stage, packed)
    else:
        size = max(group.bytes_per_block for group in stage)
    aligned = {
        spec.block_alignment for group in stage for spec in group.specs if isinstance(spec, AttentionSpec)
    }
    return round_up(size, lcm(*aligned))


def pack_layers(caches: tuple[LayerCache, ...], rules: EngineRules) -> tuple[Group, ...] | None:
    """Return the groups of a model with compressed attention, or ``None`` for any other model.

    Source: vLLM 0.20.0 to 0.28.0, v1/core/kv_cache_utils.py group_and_unify_kv_cache_specs and
    _get_kv_cache_groups_uniform_groups; 0.29.0 to 0.33.0, _get_packed_kv_cache_groups.
    """
    if all(spec.kind not in PACKED_KINDS for spec in distinct_specs(caches)):
        return None
    if rules.pages.packed_groups not in MLA_FIRST:
        return None if len(page_sizes(caches)) == 1 else tuple(_in_order(_buckets(caches), rules))
    buckets = sorted(_buckets(caches), key=lambda bucket: not bucket.mla)
    if rules.pages.packed_groups is PackedGroups.MLA_FIRST_PADDED:
        sizes = sorted(page_sizes(buckets[0].layers))
        buckets = [buckets[0], *(_padded(bucket, sizes) for bucket in buckets[1:])]
    repeats = _least_padding([bucket.repeats for bucket in buckets], buckets[0].repeats)
    return tuple(
        Group.of(part, uniform_type=True)
        for bucket in buckets
        for part in _parts(bucket, 1 if bucket.mla else _count(bucket, repeats))
    )


def _in_order(buckets: Sequence[_Bucket], rules: EngineRules) -> Iterable[Group]:
    """Yield groups in the order of the layers, those of states no wider than others need a block to be."""
    mixed = (bucket.repeats for bucket in buckets if bucket.balanced and len(bucket.counts) > 1)
    least = max(mixed, default=0)
    even = [bucket.repeats for bucket in buckets if bucket.balanced]
    repeats = _least_padding(even, least) if least else None
    states = [_is_state(bucket, repeats, rules) for bucket in buckets]
    widest = max(
        bucket.widest(len(bucket.layers) if state else _count(bucket, repeats))
        for bucket, state in zip(buckets, states, strict=True)
    )
    for bucket, state in zip(buckets, states, strict=True):
        count = _count(bucket, repeats)
        if state:
            fitting = max(1, widest // bucket.layers[0].spec.page_size)
            count = max(count, ceil_div(len(bucket.layers), fitting))
        yield from (Group.of(part, uniform_type=True) for part in _parts(bucket, count))


def _is_state(bucket: _Bucket, repeats: int | None, rules: EngineRules) -> bool:
    """Say whether a bucket may be split down to one layer: of windows, only where no pattern splits any."""
    kind = bucket.layers[0].spec.kind
    return kind in rules.pages.packed_states and (repeats is None or kind not in WINDOWED_KINDS)


def _count(bucket: _Bucket, repeats: int | None) -> int:
    return 1 if repeats is None or not bucket.balanced else ceil_div(bucket.repeats, repeats)


def _buckets(caches: Iterable[LayerCache]) -> list[_Bucket]:
    by_type: dict[tuple[object, ...], list[LayerCache]] = {}
    for cache in caches:
        by_type.setdefault(type_key(cache.spec), []).append(cache)
    return [_Bucket(tuple(layers)) for layers in by_type.values()]


def _padded(bucket: _Bucket, sizes: Sequence[int]) -> _Bucket:
    """Bring each page to the next size that the compressed layers have."""
    return _Bucket(
        tuple(
            LayerCache(layer.index, layer.spec.padded(_next_size(layer.spec.page_size, sizes)))
            for layer in bucket.layers
        )
    )


def _next_size(page_size: int, sizes: Sequence[int]) -> int:
    """Return the least of the sorted ``sizes`` that holds a page.

    Source: vLLM 0.25.0, v1/core/kv_cache_utils.py _get_kv_cache_groups_uniform_groups.
    """
    if page_size > sizes[-1]:
        raise EngineRefusal(
            Stage.GROUPING,
            "min() iterable argument is empty",
            type="ValueError",
            detail=f"No compressed layer has pages of {page_size} bytes, to which others are padded.",
        )
    return next(size for size in sizes if size >= page_size)


def _least_padding(counts: Sequence[int], least: int) -> int:
    """Return the size of chunks into which all counts go with the least left over, the larger of equals.

    Source: vLLM 0.20.0 to 0.33.0, v1/core/kv_cache_utils.py _approximate_gcd.
    """
    sizes = range(least, max((*counts, least)) + 1)
    return min(sizes, key=lambda size: (sum(-count % size for count in counts), -size))


def _parts(bucket: _Bucket, count: int) -> Iterable[tuple[LayerCache, ...]]:
    return (bucket.layers,) if count == 1 else bucket.split(count)


def packed_block_bytes(stage: Sequence[Group], how: BlockBytes) -> int:
    """Return the bytes of one block id on a stage of packed groups.

    Source: vLLM 0.20.2, 0.24.0 and 0.27.0, v1/core/kv_cache_utils.py _pool_bytes_per_block.
    """
    counts = [Counter(layer.spec.page_size for layer in group.layers) for group in stage]
    match how:
        case BlockBytes.WHOLE_ROUNDS:
            rounds = max(count for each in counts for count in each.values())
            return rounds * sum(counts[0])
        case BlockBytes.PAGE_SIZES:
            sizes = {size for each in counts for size in each}
            return sum(size * max(each[size] for each in counts) for size in sizes)
        case BlockBytes.WIDEST_GROUP:
            return max(group.bytes_per_block for group in stage)
    assert_never(how)
