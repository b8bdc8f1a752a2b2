"""The engine's KV cache groups: layers that share one block table."""

from dataclasses import dataclass, replace

from service.engine_config.engine_config import RequestDemand
from service.engines.rules.groups import GroupRules
from service.kv_cache.specs import (
    WINDOWED_KINDS,
    CacheKind,
    LayerSpec,
    SpecLayers,
    StateSpec,
)


@dataclass(frozen=True, slots=True)
class Group:
    """Layers with one block table.

    In a *uniform type* group pages differ from layer to layer; a block id then costs their sum.
    """

    layers: tuple[SpecLayers, ...]
    """The layers here, by spec: all of them, or those of one pipeline stage."""
    spec: LayerSpec
    """What all layers share, or the first of a uniform type."""
    uniform_type: bool = False
    whole_page_size: int | None = None
    """Bytes of one block over the layers of all stages, where the release counts those on each stage."""

    @classmethod
    def of(cls, layers: tuple[SpecLayers, ...], *, uniform_type: bool = False) -> "Group":
        """Return the group of some layers, at least one."""
        return cls(layers, layers[0].spec, uniform_type)

    def within(self, stage: tuple[SpecLayers, ...], rules: GroupRules) -> "Group":
        """Return the group as one pipeline stage holds it; it may be empty."""
        indices = {index for cache in stage for index in cache.indices}
        whole = self.page_size if self.uniform_type and not rules.uniform_type_per_stage else None
        parts = (layers.within(indices) for layers in self.layers)
        return replace(self, layers=tuple(part for part in parts if part.indices), whole_page_size=whole)

    @property
    def num_layers(self) -> int:
        """Number of caches in the group here."""
        return sum(layers.count for layers in self.layers)

    @property
    def specs(self) -> tuple[LayerSpec, ...]:
        """The different specs of its layers."""
        return tuple(layers.spec for layers in self.layers)

    @property
    def kind(self) -> CacheKind:
        """Kind of the layers' caches."""
        return CacheKind.UNIFORM_TYPE if self.uniform_type else self.spec.kind

    @property
    def page_size(self) -> int:
        """Bytes of one block: of one layer, or of all layers of a uniform type."""
        if not self.uniform_type:
            return self.spec.page_size
        return self.whole_page_size or sum(layers.count * layers.spec.page_size for layers in self.layers)

    @property
    def unpadded_page_size(self) -> int:
        """As ``page_size``, without padding."""
        if self.uniform_type:
            return self.whole_page_size or sum(
                layers.count * layers.spec.unpadded_page_size for layers in self.layers
            )
        return self.spec.unpadded_page_size

    @property
    def bytes_per_block(self) -> int:
        """Bytes that one block id costs in this group."""
        return self.page_size if self.uniform_type else self.num_layers * self.spec.page_size

    def blocks_per_request(self, demand: RequestDemand) -> int:
        """Return the block ids that one request takes from the pool for this group."""
        if not self.uniform_type:
            return self.spec.blocks_per_request(demand)
        return max((spec.blocks_per_request(demand) for spec in self.specs), default=0)

    @property
    def slots(self) -> tuple[tuple[object, ...], ...]:
        """What the blocks of a request depend on."""
        specs = self.specs if self.uniform_type else (self.spec,)
        return tuple(type_key(spec) for spec in specs)


def type_key(spec: LayerSpec) -> tuple[object, ...]:
    """Return what makes two specs need the same slots: vLLM 0.32.0, UniformTypeKVCacheSpecs.from_specs."""
    if isinstance(spec, StateSpec):
        pages = (spec.pages_per_request, spec.speculative_pages)
        return (CacheKind.MAMBA, spec.block_size, *pages, spec.page_size, spec.replicated)
    if spec.kind in WINDOWED_KINDS:
        return (spec.kind, spec.block_size, spec.sliding_window)
    if spec.kind is CacheKind.CHUNKED_LOCAL_ATTENTION:
        return (CacheKind.CHUNKED_LOCAL_ATTENTION, spec.block_size, spec.attention_chunk_size)
    if spec.kind is CacheKind.CROSS_ATTENTION:
        return (CacheKind.CROSS_ATTENTION, spec.block_size)
    if spec.kind is CacheKind.CIRCULAR_BUFFER:
        return (CacheKind.CIRCULAR_BUFFER, spec.block_size)
    return (CacheKind.FULL_ATTENTION, spec.block_size)
