"""Layers that share a block table: the engine's KV cache groups."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from service.engines.refusal import EngineRefusal, Stage
from service.engines.rules import EngineRules, GroupMembers
from service.kv_cache.formats import unpacked
from service.kv_cache.specs import (
    AttentionSpec,
    CacheKind,
    LayerCache,
    LayerSpec,
    StateSpec,
    distinct_specs,
)
from service.kv_cache.unification import unify_page_sizes
from service.launch.serving import Demand
from service.units import ceil_div

LOCAL_KINDS: Final = frozenset({CacheKind.SLIDING_WINDOW, CacheKind.CHUNKED_LOCAL_ATTENTION})
"""Kinds that keep only part of a sequence."""


@dataclass(frozen=True, slots=True)
class Group:
    """Layers with one block table.

    In a *uniform type* group pages differ from layer to layer; a block id then costs their sum.
    """

    layers: tuple[LayerCache, ...]
    """The layers here: all of them, or those of one pipeline stage."""
    spec: LayerSpec
    """What all layers share, or the first of a uniform type."""
    uniform_type: bool = False
    whole_page_size: int | None = None
    """Bytes of one block over the layers of all stages, where the release counts those on each stage."""

    @classmethod
    def of(cls, layers: tuple[LayerCache, ...], *, uniform_type: bool = False) -> "Group":
        """Return the group of some layers, at least one."""
        return cls(layers, layers[0].spec, uniform_type)

    def within(self, stage: tuple[LayerCache, ...], rules: EngineRules) -> "Group":
        """Return the group as one pipeline stage holds it; it may be empty."""
        indices = {cache.index for cache in stage}
        whole = self.page_size if self.uniform_type and not rules.uniform_type_per_stage else None
        layers = tuple(layer for layer in self.layers if layer.index in indices)
        return replace(self, layers=layers, whole_page_size=whole)

    @property
    def kind(self) -> CacheKind:
        """What the layers keep."""
        return CacheKind.UNIFORM_TYPE if self.uniform_type else self.spec.kind

    @property
    def page_size(self) -> int:
        """Bytes of one block: of one layer, or of all layers of a uniform type."""
        if not self.uniform_type:
            return self.spec.page_size
        return self.whole_page_size or sum(layer.spec.page_size for layer in self.layers)

    @property
    def unpadded_page_size(self) -> int:
        """As ``page_size``, without padding."""
        if self.uniform_type:
            return self.whole_page_size or sum(layer.spec.unpadded_page_size for layer in self.layers)
        return self.spec.unpadded_page_size

    @property
    def bytes_per_block(self) -> int:
        """Bytes that one block id costs in this group."""
        return self.page_size if self.uniform_type else len(self.layers) * self.spec.page_size

    def blocks_per_request(self, demand: Demand) -> int:
        """Return the block ids that one request takes from the pool for this group."""
        if not self.uniform_type:
            return self.spec.blocks_per_request(demand)
        return max((layer.spec.blocks_per_request(demand) for layer in self.layers), default=0)


def group_layers(
    caches: tuple[LayerCache, ...], rules: EngineRules, *, hybrid_manager: bool = True
) -> tuple[Group, ...]:
    """Split the cache-owning layers of the whole model into groups.

    Source: vLLM 0.19.0 to 0.32.0, v1/core/kv_cache_utils.py get_kv_cache_groups.

    Raises:
        EngineRefusal: layers cannot be promoted to one kind, or pages cannot be unified.
    """
    if not hybrid_manager:
        caches = _promote(caches, rules)
    if len(distinct_specs(caches)) == 1:
        return (Group.of(caches),)
    if rules.uniform_type and _of_one_type(caches):
        return (Group.of(caches, uniform_type=True),)
    return _of_one_page_size(unify_page_sizes(caches, rules), rules)


def _type_key(spec: LayerSpec) -> tuple[object, ...]:
    """Return what makes two specs need the same slots: vLLM 0.32.0, UniformTypeKVCacheSpecs.from_specs."""
    if isinstance(spec, StateSpec):
        return (CacheKind.MAMBA, spec.block_size, spec.pages_per_request, spec.page_size)
    if spec.kind is CacheKind.SLIDING_WINDOW:
        return (CacheKind.SLIDING_WINDOW, spec.block_size, spec.sliding_window)
    if spec.kind is CacheKind.CHUNKED_LOCAL_ATTENTION:
        return (CacheKind.CHUNKED_LOCAL_ATTENTION, spec.block_size, spec.attention_chunk_size)
    return (CacheKind.FULL_ATTENTION, spec.block_size)


def _of_one_type(caches: Sequence[LayerCache]) -> bool:
    return len(set(map(_type_key, distinct_specs(caches)))) == 1


def _of_one_kind(caches: Sequence[LayerCache], rules: EngineRules) -> bool:
    """Whether the layers can be one group without bringing pages to one size."""
    return len(distinct_specs(caches)) == 1 or (rules.uniform_type and _of_one_type(caches))


def _of_one_page_size(caches: tuple[LayerCache, ...], rules: EngineRules) -> tuple[Group, ...]:
    buckets = _by_spec(caches)
    smallest, largest = min(map(len, buckets)), max(map(len, buckets))
    size = largest if largest * 100 < smallest * rules.group_size_percent else smallest
    split = _CUTS[rules.group_members]
    return tuple(Group.of(tuple(part)) for bucket in buckets for part in split(bucket, size))


def _by_spec(caches: tuple[LayerCache, ...]) -> tuple[list[LayerCache], ...]:
    """Return the layers of each spec, in the order in which the specs appear."""
    buckets: dict[LayerSpec, list[LayerCache]] = {spec: [] for spec in distinct_specs(caches)}
    objects = {id(cache.spec): cache.spec for cache in caches}
    bucket_of = {key: buckets[spec] for key, spec in objects.items()}
    for cache in caches:
        bucket_of[id(cache.spec)].append(cache)
    return tuple(buckets.values())


def _contiguous(layers: Sequence[LayerCache], size: int) -> Iterator[Sequence[LayerCache]]:
    return (layers[first : first + size] for first in range(0, len(layers), size))


def _strided(layers: Sequence[LayerCache], size: int) -> Iterator[Sequence[LayerCache]]:
    count = ceil_div(len(layers), size)
    return (layers[first::count] for first in range(count))


_CUTS = {GroupMembers.CONTIGUOUS: _contiguous, GroupMembers.STRIDED: _strided}


def _promote(caches: tuple[LayerCache, ...], rules: EngineRules) -> tuple[LayerCache, ...]:
    """Turn sliding and chunked layers into full ones where both occur.

    Source: vLLM 0.19.0 to 0.32.0, unify_hybrid_kv_cache_specs.
    """
    if _of_one_kind(caches, rules):
        return caches
    full_blocks = {
        spec.block_size for spec in distinct_specs(caches) if spec.kind is CacheKind.FULL_ATTENTION
    }
    if full_blocks:
        block_size = full_blocks.pop() if rules.promotion_takes_full_block and len(full_blocks) == 1 else None
        caches = tuple(replace(cache, spec=_promoted(cache.spec, block_size, rules)) for cache in caches)
    if not _of_one_kind(caches, rules):
        raise EngineRefusal(Stage.GROUPING, rules.promotion_refusal)
    return caches


def _promoted(spec: LayerSpec, block_size: int | None, rules: EngineRules) -> LayerSpec:
    if not isinstance(spec, AttentionSpec) or spec.kind not in LOCAL_KINDS:
        return spec
    return replace(
        spec,
        kind=CacheKind.FULL_ATTENTION,
        block_size=block_size or spec.block_size,
        format=spec.format if rules.promotion_keeps_packing else unpacked(spec.format),
        sliding_window=None,
        attention_chunk_size=None,
        strided=spec.strided and rules.promotion_keeps_stride,
    )
