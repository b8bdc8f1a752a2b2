"""Blocks, tokens and concurrency of a given number of bytes per rank, or why the engine stops."""

from collections.abc import Callable
from dataclasses import dataclass

from service.architecture.model import ModelArchitecture
from service.backends.assignment import Backends
from service.engines.refusal import EngineRefusal, Stage
from service.engines.rules import EngineRules, StartupCheck, TokenReport
from service.kv_cache.answer import CacheGroup, KvCache
from service.kv_cache.block_size import resolve_block_sizes
from service.kv_cache.grouping import Group, group_layers
from service.kv_cache.layers import layer_caches
from service.launch.layout import stage_layers
from service.launch.serving import Serving
from service.units import GIB


@dataclass(frozen=True, slots=True)
class CacheLayout:
    """Groups of the whole model and what each pipeline stage holds of them."""

    groups: tuple[Group, ...]
    stages: tuple[tuple[Group, ...], ...]
    """Per stage, its layers of every group; a group may be empty there."""
    block_size: int
    """Tokens of the engine's own block size."""

    @property
    def bytes_per_block(self) -> int:
        """Bytes of one block id on the stage where it costs most."""
        return max(map(bytes_per_block, self.stages))


def bytes_per_block(stage: tuple[Group, ...]) -> int:
    """Return the bytes that one block id costs on a stage: those of its widest group."""
    return max(group.bytes_per_block for group in stage)


def lay_out(architecture: ModelArchitecture, serving: Serving, backends: Backends) -> CacheLayout:
    """Return the groups that the engine forms, before any memory is known.

    Raises:
        EngineRefusal: no common block size, page size or type of layer can be found.
    """
    sizes = resolve_block_sizes(architecture, serving, backends)
    caches = layer_caches(architecture, serving, backends, sizes)
    groups = group_layers(caches, serving.rules, hybrid_manager=serving.hybrid_manager)
    stages = tuple(
        tuple(group.within(layers) for group in groups)
        for layers in stage_layers(len(architecture.layers), serving.pipeline_parallel_size)
    )
    return CacheLayout(groups, stages, sizes.block_size)


def size_cache(layout: CacheLayout, serving: Serving, available_bytes: int) -> KvCache:
    """Return what the engine makes of ``available_bytes`` on every rank.

    Source: vLLM 0.19.0 to 0.32.0, v1/core/kv_cache_utils.py get_kv_cache_configs.

    Raises:
        EngineRefusal: one request of the maximum length does not fit (stage ``memory``).
    """
    stages = tuple(_StageMemory(stage, serving, available_bytes) for stage in layout.stages)
    length = serving.max_model_len
    if serving.fit_max_model_len:
        length = _fitted_length(stages, length)
    for stage in stages:
        stage.check(length)
    num_blocks = min(stage.num_blocks for stage in stages)
    concurrency = num_blocks / sum(
        group.blocks_per_request(serving.demand(length)) for group in layout.groups
    )
    tokens = _tokens(layout, serving, num_blocks, concurrency, length)
    return KvCache(
        available_bytes=available_bytes,
        num_blocks=num_blocks,
        bytes_per_block=layout.bytes_per_block,
        tokens=tokens,
        max_concurrency=concurrency,
        max_model_len=length,
        estimated_max_model_len=min(stage.longest(length) for stage in stages),
        groups=tuple(_answer(group, serving, length) for group in layout.stages[0]),
        log_lines=tuple(
            line.format(tokens=tokens, length=length, concurrency=concurrency)
            for line in serving.rules.report_lines
        ),
    )


def _answer(group: Group, serving: Serving, length: int) -> CacheGroup:
    return CacheGroup(
        kind=group.kind,
        layers=len(group.layers),
        block_size=group.spec.block_size,
        page_size_bytes=group.page_size,
        unpadded_page_size_bytes=group.unpadded_page_size,
        blocks_per_request=group.blocks_per_request(serving.demand(length)),
    )


def _tokens(layout: CacheLayout, serving: Serving, num_blocks: int, concurrency: float, length: int) -> int:
    if serving.rules.token_report is TokenReport.CONCURRENCY:
        return int(concurrency * length)
    smallest = min(group.spec.block_size for group in layout.groups)
    return num_blocks // len(layout.groups) * smallest * serving.decode_context_parallel_size


def _fitted_length(stages: tuple["_StageMemory", ...], length: int) -> int:
    fitted = min(stage.longest(length) for stage in stages)
    if fitted == 0:
        raise EngineRefusal(
            Stage.MEMORY,
            "Cannot auto-fit max_model_len: not enough GPU memory available to serve even a single token. "
            "Try increasing `gpu_memory_utilization`.",
        )
    return fitted


class _StageMemory:
    """One pipeline stage's memory as the engine checks it."""

    def __init__(self, stage: tuple[Group, ...], serving: Serving, available_bytes: int) -> None:
        self._stage = tuple(group for group in stage if group.layers)
        self._serving = serving
        rules = serving.rules
        per_block = bytes_per_block(stage)
        override = serving.num_gpu_blocks_override
        self.num_blocks = max(0, available_bytes // per_block) if override is None else override
        if override is not None and rules.override_counts_as_available:
            available_bytes = override * per_block
        reserved = rules.startup_check is StartupCheck.ALL_GROUPS_BUT_NULL_BLOCK
        self._available = available_bytes - (per_block if reserved else 0)
        self._needed: Callable[[int], int] = _NEEDED[rules.startup_check](stage, serving)

    def longest(self, limit: int) -> int:
        """Return the longest request that fits, up to ``limit``; 0 when not even one token does."""
        if self._needed(1) > self._available:
            return 0
        low, high = 1, limit
        while low < high:
            middle = (low + high + 1) // 2
            if self._needed(middle) <= self._available:
                low = middle
            else:
                high = middle - 1
        return low

    def check(self, length: int) -> None:
        """Refuse as the engine does when one request of ``length`` tokens does not fit."""
        rules = self._serving.rules
        if self._available <= 0:
            raise EngineRefusal(Stage.MEMORY, rules.no_memory_refusal)
        needed = self._needed(length)
        if needed > self._available:
            raise EngineRefusal(Stage.MEMORY, self._refusal(rules, length, needed))

    def _refusal(self, rules: EngineRules, length: int, needed: int) -> str:
        longest = self.longest(length)
        estimate = (
            f"Based on the available memory, the estimated maximum model length is {longest}. "
            if longest
            else ""
        )
        return rules.memory_refusal.format(
            length=length,
            needed=_printed_gib(needed),
            available=_printed_gib(self._available),
            estimate=estimate,
        )


def _printed_gib(size_bytes: int) -> float:
    """Return GiB as the engine prints them: vLLM 0.19.0, utils/mem_utils.py format_gib."""
    return round(size_bytes / GIB, 2)


def _all_groups(stage: tuple[Group, ...], serving: Serving) -> Callable[[int], int]:
    per_block = bytes_per_block(stage)

    def needed(length: int) -> int:
        demand = serving.demand(length)
        return per_block * sum(group.blocks_per_request(demand) for group in stage)

    return needed


def _first_group(stage: tuple[Group, ...], serving: Serving) -> Callable[[int], int]:
    per_block = bytes_per_block(stage)
    return lambda length: per_block * stage[0].blocks_per_request(serving.demand(length))


def _layers(stage: tuple[Group, ...], serving: Serving) -> Callable[[int], int]:
    specs = [layer.spec for group in stage for layer in group.layers]

    def needed(length: int) -> int:
        demand = serving.demand(length)
        return sum(spec.blocks_per_request(demand) * spec.page_size for spec in specs)

    return needed


_NEEDED = {
    StartupCheck.LAYERS: _layers,
    StartupCheck.FIRST_GROUP: _first_group,
    StartupCheck.ALL_GROUPS: _all_groups,
    StartupCheck.ALL_GROUPS_BUT_NULL_BLOCK: _all_groups,
}
