"""Whether one request of the maximum length fits, as the release checks it before it starts."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Final, TypeAlias, assert_never

from service.engine_config.engine_config import EngineConfig, RequestDemand
from service.engines.refusal import EngineRefusal, Stage
from service.engines.rules.capacity import CapacityRules, StartupCheck
from service.kv_cache.cache_layout import CacheLayout
from service.kv_cache.groups import Group
from service.kv_cache.packing import bytes_per_block
from service.kv_cache.specs import SpecLayers
from service.units import GIB

LENGTHS: Final = 256
"""Lengths of which is stored what a request takes: several searches for the longest try so many."""


@dataclass(frozen=True, slots=True)
class RequestBlocks:
    """What one request of some length takes."""

    demand: RequestDemand
    stages: tuple[int, ...]
    """Per stage, the blocks of all its groups."""


Taken: TypeAlias = Callable[[int], RequestBlocks]
"""Returns what a request of some length takes."""


@dataclass(frozen=True, slots=True)
class StartupMemory:
    """One pipeline stage's memory, or the whole model's, as the engine checks it."""

    needed: Callable[[int], int]
    """Bytes that a request of some length needs."""
    engine_config: EngineConfig
    block_bytes: int | None = None
    """What one block id costs, where the release counts in blocks what is there."""

    def available(self, given_bytes: int) -> int:
        """Return the bytes that one request may take of those given to the cache."""
        rules, override = self.engine_config.rules.capacity, self.engine_config.num_gpu_blocks_override
        if self.block_bytes is None:
            return given_bytes
        if override is not None and rules.override_counts_as_available:
            given_bytes = override * self.block_bytes
        reserved = rules.startup_check is StartupCheck.ALL_GROUPS_BUT_NULL_BLOCK
        return given_bytes - (self.block_bytes if reserved else 0)

    def longest(self, given_bytes: int, limit: int) -> int:
        """Return the longest request that fits, up to ``limit``; 0 when not even one token does."""
        available = self.available(given_bytes)
        if self.needed(limit) <= available:
            return limit
        if self.needed(1) > available:
            return 0
        low, high = 1, limit
        while low < high:
            middle = (low + high + 1) // 2
            if self.needed(middle) <= available:
                low = middle
            else:
                high = middle - 1
        return low

    def fits(self, given_bytes: int, length: int) -> bool:
        """Return whether ``check`` passes."""
        available = self.available(given_bytes)
        return 0 < available >= self.needed(length)

    def check(self, given_bytes: int, length: int) -> None:
        """Refuse as the engine does when one request of ``length`` tokens does not fit.

        Raises:
            EngineRefusal: stage ``memory``.
        """
        rules, available = self.engine_config.rules.capacity, self.available(given_bytes)
        if available <= 0:
            raise EngineRefusal(Stage.MEMORY, rules.no_memory_refusal)
        needed = self.needed(length)
        if needed > available:
            longest = self.longest(given_bytes, length)
            raise EngineRefusal(Stage.MEMORY, _refusal(rules, length, needed, available, longest))


_stored: Final = lru_cache(LENGTHS)


def startup_memories(
    layout: CacheLayout, engine_config: EngineConfig, taken: Taken | None = None
) -> tuple[StartupMemory, ...]:
    """Return each stage's memory as the release checks it; some check layers, or the model as a whole.

    ``taken`` returns what a request of some length takes; without it, that is calculated.
    """
    taken = taken or stored_requests(layout, engine_config)
    needs: list[Callable[[int], int]]
    match engine_config.rules.capacity.startup_check:
        case StartupCheck.LAYERS:
            return tuple(
                StartupMemory(_stored(_of_layers(stage, engine_config)), engine_config)
                for stage in layout.layers
            )
        case StartupCheck.FIRST_GROUP_OF_MODEL:
            block = bytes_per_block(layout.groups, layout.pages.packed_check_bytes)
            return (StartupMemory(_stored(_of_group(layout.groups[0], block, engine_config)), engine_config),)
        case StartupCheck.FIRST_GROUP:
            needs = [
                _stored(_of_group(stage[0], block, engine_config))
                for stage, block in zip(layout.stages, layout.checked_block_bytes, strict=True)
            ]
        case StartupCheck.ALL_GROUPS | StartupCheck.ALL_GROUPS_BUT_NULL_BLOCK:
            needs = [
                _of_all_groups(stage, block, taken) for stage, block in enumerate(layout.checked_block_bytes)
            ]
        case _:
            assert_never(engine_config.rules.capacity.startup_check)
    return tuple(
        StartupMemory(needed, engine_config, block)
        for needed, block in zip(needs, layout.block_bytes, strict=True)
    )


def _refusal(rules: CapacityRules, length: int, needed: int, available: int, longest: int) -> str:
    estimate = (
        f"Based on the available memory, the estimated maximum model length is {longest}." if longest else ""
    )
    return rules.memory_refusal.format(
        length=length,
        needed=_printed_gib(needed),
        available=_printed_gib(available),
        estimate=estimate,
        gap=" " if estimate else "",
    )


def _printed_gib(size_bytes: int) -> float:
    """Return GiB as the engine prints them: vLLM 0.19.0, utils/mem_utils.py format_gib."""
    return round(size_bytes / GIB, 2)


def stored_requests(layout: CacheLayout, engine_config: EngineConfig) -> Taken:
    """Return what returns what requests take, and stores it for the last lengths."""
    return _stored(partial(_request_blocks, layout, engine_config))


def _request_blocks(layout: CacheLayout, engine_config: EngineConfig, length: int) -> RequestBlocks:
    """Return what a request of some length takes."""
    demand = engine_config.demand(length)
    stages = (sum(count * group.blocks_per_request(demand) for group, count in runs) for runs in layout.runs)
    return RequestBlocks(demand, tuple(stages))


def _of_all_groups(stage: int, block: int, taken: Taken) -> Callable[[int], int]:
    return lambda length: block * taken(length).stages[stage]


def _of_group(group: Group, block: int, engine_config: EngineConfig) -> Callable[[int], int]:
    return lambda length: block * group.blocks_per_request(engine_config.demand(length))


def _of_layers(stage: tuple[SpecLayers, ...], engine_config: EngineConfig) -> Callable[[int], int]:
    def needed(length: int) -> int:
        demand = engine_config.demand(length)
        return sum(
            layers.count * layers.spec.blocks_per_request(demand) * layers.spec.page_size for layers in stage
        )

    return needed
