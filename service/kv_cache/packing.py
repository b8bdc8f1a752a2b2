"""Groups of layers whose pages of several sizes lie side by side (DeepSeek V4, Qwen4 Exp)."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import lcm
from typing import assert_never

from service.engines.refusal import EngineRefusal, Stage
from service.engines.rules.pages import BlockBytes, PackedGroups, PageRules
from service.kv_cache.groups import Group, type_key
from service.kv_cache.specs import (
    WINDOWED_KINDS,
    AttentionSpec,
    CacheKind,
    SpecLayers,
    page_sizes,
)
from service.units import ceil_div, round_up

MLA_FIRST = frozenset({PackedGroups.MLA_FIRST_PADDED, PackedGroups.MLA_FIRST})
PACKED_KINDS = frozenset({CacheKind.SLIDING_WINDOW_MLA, CacheKind.CIRCULAR_BUFFER})
"""Kinds whose backends want all layers of a block side by side."""


@dataclass(frozen=True, slots=True)
class _Bucket:
    """Layers of one type, and so of as many token slots, with pages of one or several sizes."""

    layers: tuple[SpecLayers, ...]

    @property
    def mla(self) -> bool:
        """Whether these are the compressed tokens."""
        return self.layers[0].spec.kind is CacheKind.MLA_ATTENTION

    @property
    def num_layers(self) -> int:
        """Number of caches."""
        return sum(layers.count for layers in self.layers)

    @property
    def counts(self) -> Counter[int]:
        """Number of layers by page size, in the order in which the sizes appear."""
        return _page_counts(self.layers)

    @property
    def repeats(self) -> int:
        """Layers of the page size that most have."""
        return max(self.counts.values())

    @property
    def balanced(self) -> bool:
        """Whether there are as many layers of each page size."""
        return len(set(self.counts.values())) == 1

    def widest(self, count: int) -> int:
        """Return the bytes of a block over the largest of ``count`` groups that share the layers."""
        return sum(ceil_div(layers, count) * size for size, layers in self.counts.items())

    def split(self, count: int) -> Iterator[tuple[SpecLayers, ...]]:
        """Yield ``count`` groups; each takes one layer of every page size in turn."""
        by_size: dict[int, list[tuple[int, int]]] = {size: [] for size in self.counts}
        for place, layers in enumerate(self.layers):
            by_size[layers.spec.page_size].extend((index, place) for index in layers.indices)
        rounds = list(zip(*map(sorted, by_size.values()), strict=False))
        for first in range(count):
            indices: dict[int, list[int]] = {}
            for taken in rounds[first::count]:
                for index, place in taken:
                    indices.setdefault(place, []).append(index)
            yield tuple(SpecLayers(self.layers[place].spec, tuple(found)) for place, found in indices.items())


def _page_counts(caches: Iterable[SpecLayers]) -> Counter[int]:
    counts = Counter[int]()
    for layers in caches:
        counts[layers.spec.page_size] += layers.count
    return counts


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


def pack_layers(caches: tuple[SpecLayers, ...], pages: PageRules) -> tuple[Group, ...] | None:
    """Return the groups of a model with compressed attention, or ``None`` for any other model.

    Source: vLLM 0.20.0 to 0.28.0, v1/core/kv_cache_utils.py group_and_unify_kv_cache_specs and
    _get_kv_cache_groups_uniform_groups; 0.29.0 to 0.33.0, _get_packed_kv_cache_groups.
    """
    if all(cache.spec.kind not in PACKED_KINDS for cache in caches):
        return None
    if pages.packed_groups not in MLA_FIRST:
        return None if len(page_sizes(caches)) == 1 else tuple(_in_order(_buckets(caches), pages))
    buckets = sorted(_buckets(caches), key=lambda bucket: not bucket.mla)
    if pages.packed_groups is PackedGroups.MLA_FIRST_PADDED:
        sizes = sorted(page_sizes(buckets[0].layers))
        buckets = [buckets[0], *(_padded(bucket, sizes) for bucket in buckets[1:])]
    repeats = _least_padding([bucket.repeats for bucket in buckets], buckets[0].repeats)
    return tuple(
        Group.of(part, uniform_type=True)
        for bucket in buckets
        for part in _parts(bucket, 1 if bucket.mla else _count(bucket, repeats))
    )


def _in_order(buckets: Sequence[_Bucket], pages: PageRules) -> Iterable[Group]:
    """Yield groups in the order of the layers; those of states take no more bytes than the widest other."""
    mixed = (bucket.repeats for bucket in buckets if bucket.balanced and len(bucket.counts) > 1)
    least = max(mixed, default=0)
    even = [bucket.repeats for bucket in buckets if bucket.balanced]
    repeats = _least_padding(even, least) if least else None
    states = [_is_state(bucket, repeats, pages) for bucket in buckets]
    widest = max(
        bucket.widest(bucket.num_layers if state else _count(bucket, repeats))
        for bucket, state in zip(buckets, states, strict=True)
    )
    for bucket, state in zip(buckets, states, strict=True):
        count = _count(bucket, repeats)
        if state:
            fitting = max(1, widest // bucket.layers[0].spec.page_size)
            count = max(count, ceil_div(bucket.num_layers, fitting))
        yield from (Group.of(part, uniform_type=True) for part in _parts(bucket, count))


def _is_state(bucket: _Bucket, repeats: int | None, pages: PageRules) -> bool:
    """Say whether a bucket may be split down to one layer: of windows, only where no pattern splits any."""
    kind = bucket.layers[0].spec.kind
    return kind in pages.packed_states and (repeats is None or kind not in WINDOWED_KINDS)


def _count(bucket: _Bucket, repeats: int | None) -> int:
    return 1 if repeats is None or not bucket.balanced else ceil_div(bucket.repeats, repeats)


def _buckets(caches: Iterable[SpecLayers]) -> list[_Bucket]:
    by_type: dict[tuple[object, ...], list[SpecLayers]] = {}
    for cache in caches:
        by_type.setdefault(type_key(cache.spec), []).append(cache)
    return [_Bucket(tuple(layers)) for layers in by_type.values()]


def _padded(bucket: _Bucket, sizes: Sequence[int]) -> _Bucket:
    """Bring each page to the next size that the compressed layers have."""
    return _Bucket(
        tuple(
            SpecLayers(layers.spec.padded(_next_size(layers.spec.page_size, sizes)), layers.indices)
            for layers in bucket.layers
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


def _parts(bucket: _Bucket, count: int) -> Iterable[tuple[SpecLayers, ...]]:
    return (bucket.layers,) if count == 1 else bucket.split(count)


def packed_block_bytes(stage: Sequence[Group], how: BlockBytes) -> int:
    """Return the bytes of one block id on a stage of packed groups.

    Source: vLLM 0.20.2, 0.24.0 and 0.27.0, v1/core/kv_cache_utils.py _pool_bytes_per_block.
    """
    counts = [_page_counts(group.layers) for group in stage]
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
