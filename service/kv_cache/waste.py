"""Bytes of the cache that one request of the maximum length takes and does not use."""

from dataclasses import dataclass

from service.engine_config.engine_config import RequestDemand
from service.kv_cache.groups import Group
from service.kv_cache.specs import CacheKind, LayerSpec, StateSpec
from service.units import ceil_div


@dataclass(frozen=True, slots=True)
class GroupWaste:
    """Bytes of one request of the maximum length in one group, on one pipeline stage."""

    kind: CacheKind
    ideal_bytes: int
    """Of its tokens and its last state alone, without rounding, padding or reserve."""
    reserve_bytes: int
    """Of tokens outside the window, stored for steps in flight, and of states other than the last."""
    rounding_bytes: int
    """Of blocks that are partly filled."""
    padding_bytes: int
    """Of pages padded to the size of others, or to the bytes that kernels want."""
    idle_bytes: int
    """Of blocks with room for more layers than the group has."""

    @property
    def taken_bytes(self) -> int:
        """Bytes of the blocks that it takes of the pool."""
        wasted = self.reserve_bytes + self.rounding_bytes + self.padding_bytes + self.idle_bytes
        return self.ideal_bytes + wasted


@dataclass(frozen=True, slots=True)
class Waste:
    """What one request of the maximum length takes of a rank, and what it would take at best."""

    groups: tuple[GroupWaste, ...]

    @property
    def taken_bytes(self) -> int:
        """Bytes of the blocks that it takes of the pool."""
        return sum(group.taken_bytes for group in self.groups)

    @property
    def ideal_bytes(self) -> int:
        """Bytes of its tokens and states alone."""
        return sum(group.ideal_bytes for group in self.groups)

    @property
    def percent(self) -> float:
        """What is taken beyond the ideal, in percent of what is taken."""
        return 100 * (self.taken_bytes - self.ideal_bytes) / self.taken_bytes if self.taken_bytes else 0.0


def waste_of(stage: tuple[Group, ...], block_bytes: int, demand: RequestDemand) -> Waste:
    """Return what a request of the maximum length wastes on a stage where a block costs ``block_bytes``."""
    return Waste(tuple(_group_waste(group, block_bytes, demand) for group in stage if group.layers))


def _group_waste(group: Group, block_bytes: int, demand: RequestDemand) -> GroupWaste:
    blocks = group.blocks_per_request(demand)
    used = [(layers.count, *_layer_bytes(layers.spec, blocks, demand)) for layers in group.layers]
    ideal = sum(count * needed for count, needed, _ in used)
    held = sum(count * each for count, _, each in used)
    unpadded = blocks * sum(layers.count * layers.spec.unpadded_page_size for layers in group.layers)
    padded = blocks * sum(layers.count * layers.spec.page_size for layers in group.layers)
    return GroupWaste(
        kind=group.kind,
        ideal_bytes=ideal,
        reserve_bytes=held - ideal,
        rounding_bytes=unpadded - held,
        padding_bytes=padded - unpadded,
        idle_bytes=blocks * block_bytes - padded,
    )


def _layer_bytes(spec: LayerSpec, blocks: int, demand: RequestDemand) -> tuple[int, int]:
    """Return the bytes of a layer that a request needs, and those that it holds, reserve included."""
    if isinstance(spec, StateSpec):
        return spec.state_bytes, blocks * spec.state_bytes
    if spec.kind is CacheKind.CROSS_ATTENTION:
        needed = held = demand.encoder_tokens
    elif spec.kind is CacheKind.CIRCULAR_BUFFER:
        needed = held = spec.block_size
    else:
        held = ceil_div(spec.retained_tokens(demand), demand.context_parallel)
        local = spec.sliding_window if spec.is_windowed else spec.attention_chunk_size
        needed = held if local is None else min(local, held)
    entry = spec.bytes_per_token
    return ceil_div(needed, spec.tokens_per_state) * entry, ceil_div(held, spec.tokens_per_state) * entry
