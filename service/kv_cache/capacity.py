"""Blocks, tokens and concurrency of a given number of bytes per rank, or why the engine stops."""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Final

from service.architecture.layers.cache_part import CachePart
from service.architecture.model import ModelArchitecture
from service.architecture.pipeline import built_stages
from service.backends.backend import DEFAULT_BLOCK_SIZE, Backends
from service.changed import changed
from service.engine_config.engine_config import EngineConfig
from service.engines.refusal import EngineRefusal, Stage
from service.engines.rules.blocks import BlockInBatch, BlockSizeChoice, HybridBlockSize
from service.engines.rules.capacity import ConcurrencyCount, StartupCheck, TokenReport
from service.engines.rules.groups import GroupRules
from service.kv_cache.alignment import BlockSizes, unaligned
from service.kv_cache.block_size import check_block_in_batch, resolve_block_sizes
from service.kv_cache.cache_layout import CacheLayout
from service.kv_cache.grouping import group_layers
from service.kv_cache.groups import Group
from service.kv_cache.kv_cache import KvCache
from service.kv_cache.layer_caches import layer_caches
from service.kv_cache.specs import CacheKind, SpecLayers, StateSpec, merge_equal
from service.kv_cache.startup_check import StartupMemory, Taken, startup_memories, stored_requests
from service.units import ceil_div

KINDS_BY_CLASS_NAME: Final = (
    CacheKind.CHUNKED_LOCAL_ATTENTION,
    CacheKind.CROSS_ATTENTION,
    CacheKind.FULL_ATTENTION,
    CacheKind.MLA_ATTENTION,
    CacheKind.MAMBA,
    CacheKind.SINK_FULL_ATTENTION,
    CacheKind.SLIDING_WINDOW,
    CacheKind.UNIFORM_TYPE,
)
"""Kinds in the order of the names of the engine's classes for them."""


def lay_out(architecture: ModelArchitecture, engine_config: EngineConfig, backends: Backends) -> CacheLayout:
    """Return the groups that the engine forms, before any memory is known.

    Raises:
        EngineRefusal: no common block size, page size or type of layer can be found.
    """
    sizes = resolve_block_sizes(architecture, engine_config, backends)
    layers = tuple(_stage_caches(architecture, engine_config, backends, sizes))
    if architecture.encodes:
        return CacheLayout(layers, (), (), sizes.block_size, engine_config.rules.pages)
    try:
        groups, parts = _groups(layers, engine_config)
    except EngineRefusal as refusal:
        if engine_config.rules.capacity.startup_check is not StartupCheck.LAYERS:
            raise
        return CacheLayout(layers, (), (), sizes.block_size, engine_config.rules.pages, refusal=refusal)
    uncuttable = _uncuttable(parts, backends)
    return CacheLayout(layers, groups, parts, sizes.block_size, engine_config.rules.pages, uncuttable)


def ungrouped_caches(
    architecture: ModelArchitecture, engine_config: EngineConfig, backends: Backends
) -> tuple[tuple[SpecLayers, ...], ...]:
    """Return the caches of each stage's layers as they are before the engine forms groups.

    Raises:
        EngineRefusal: no common block size can be found.
    """
    sizes = resolve_block_sizes(architecture, engine_config, backends)
    return tuple(_stage_caches(architecture, engine_config, backends, sizes))


def _stage_caches(
    architecture: ModelArchitecture, engine_config: EngineConfig, backends: Backends, sizes: BlockSizes
) -> Iterator[tuple[SpecLayers, ...]]:
    """Yield the caches of each stage, whose own layers decide its block size where backends do.

    Source: vLLM 0.18.0 to 0.33.0, Platform.update_block_size_for_backend, which each worker runs on its own.
    """
    if engine_config.pipeline_parallel_size == 1:
        yield layer_caches(architecture, engine_config, backends, sizes)
        return
    for layers in built_stages(architecture, engine_config.pipeline_parallel_size):
        own = backends.within(layers)
        whole = len(own) == len(backends)
        found = sizes if whole else _sizes_of_stage(architecture, engine_config, own, sizes)
        yield layer_caches(architecture, engine_config, backends, found, layers)


def _uncuttable(stages: tuple[tuple[Group, ...], ...], backends: Backends) -> frozenset[int]:
    layers = (
        layers
        for stage in stages
        for group in stage
        for layers in group.layers
        if layers.spec.kind is CacheKind.FULL_ATTENTION
    )
    return frozenset(cache.spec.block_size for cache in layers if _is_uncuttable(cache, backends))


def _is_uncuttable(cache: SpecLayers, backends: Backends) -> bool:
    block_size = cache.spec.block_size
    refusing = {
        place
        for place, backend in enumerate(backends.distinct)
        if not backend.kernel_block_sizes.accepts(block_size)
    }
    return bool(refusing) and any(
        backends.places[index, CachePart.ATTENTION] in refusing for index in cache.indices
    )


def _sizes_of_stage(
    architecture: ModelArchitecture, engine_config: EngineConfig, backends: Backends, sizes: BlockSizes
) -> BlockSizes:
    """Return the block sizes of a stage with some of the backends; one without any aligns nothing."""
    if engine_config.rules.blocks.choice is BlockSizeChoice.BEFORE_BACKENDS:
        return sizes
    if backends:
        return resolve_block_sizes(architecture, engine_config, backends)
    by_backend = engine_config.rules.blocks.hybrid_alignment is HybridBlockSize.BY_BACKEND
    alone = architecture.is_hybrid and by_backend
    return unaligned(engine_config, engine_config.block_size or DEFAULT_BLOCK_SIZE) if alone else sizes


def _groups(
    layers: tuple[tuple[SpecLayers, ...], ...], engine_config: EngineConfig
) -> tuple[tuple[Group, ...], tuple[tuple[Group, ...], ...]]:
    """Return the groups of the model and of each stage."""
    rules, pages = engine_config.rules.groups, engine_config.rules.pages
    hybrid = engine_config.hybrid_manager
    if not rules.per_stage:
        caches = layers[0] if len(layers) == 1 else merge_equal(chain.from_iterable(layers))
        groups = group_layers(caches, rules, pages, hybrid_manager=hybrid)
        _check_stages(layers, rules)
        if len(layers) == 1:
            return groups, (groups,)
        return groups, tuple(tuple(group.within(stage, rules) for group in groups) for stage in layers)
    _check_stages(layers, rules)
    stages = tuple(
        tuple(sorted(group_layers(stage, rules, pages, hybrid_manager=hybrid), key=_sorting_key))
        for stage in layers
    )
    first = [group.spec for group in stages[0]]
    if any(spec != group.spec for stage in stages for spec, group in zip(first, stage, strict=False)):
        raise EngineRefusal(
            Stage.GROUPING, "", type="AssertionError", detail="The stages' groups are not alike."
        )
    return stages[0], stages


def _check_stages(layers: tuple[tuple[SpecLayers, ...], ...], rules: GroupRules) -> None:
    if not all(layers):
        error, words = rules.empty_stage_refusal
        raise EngineRefusal(
            Stage.GROUPING, words, type=error, detail="A pipeline stage has no layer with a cache."
        )


def _sorting_key(group: Group) -> tuple[int, ...]:
    """Return what groups of one stage are sorted by: vLLM 0.10.2, unify_kv_cache_configs."""
    spec, kind = group.spec, KINDS_BY_CLASS_NAME.index(group.kind)
    if isinstance(spec, StateSpec):
        return kind, spec.block_size
    return kind, spec.block_size, spec.num_kv_heads, spec.head_size, spec.sliding_window or 0


@dataclass(frozen=True, slots=True)
class CacheSizing:
    """The part of sizing that does not depend on the bytes for the cache, computed once for many sizes."""

    layout: CacheLayout
    engine_config: EngineConfig
    checks: tuple[StartupMemory, ...]
    """Each stage's memory as the release checks it."""
    taken: Taken
    """What one request of some length takes."""

    @classmethod
    def of(
        cls, layout: CacheLayout, engine_config: EngineConfig, taken: Taken | None = None
    ) -> "CacheSizing":
        """Return the sizing of a layout; ``taken``: what requests take, where that is known."""
        taken = taken or stored_requests(layout, engine_config)
        checked = layout.groups or layout.refusal is not None
        return cls(
            layout,
            engine_config,
            startup_memories(layout, engine_config, taken) if checked else (),
            taken,
        )

    def of_length(self, engine_config: EngineConfig) -> "CacheSizing":
        """Return the sizing of the same start with another maximum length; it shares what requests take."""
        return CacheSizing(self.layout, engine_config, self.checks, self.taken)

    def fitting(self) -> "CacheSizing":
        """Return the sizing of the same start whose length the engine shortens to what fits."""
        return replace(self, engine_config=changed(self.engine_config, fit_max_model_len=True))

    def fits(self, available_bytes: int) -> bool:
        """Return whether the engine makes a cache of ``available_bytes`` on every rank, or needs none."""
        if self.layout.caches_nothing:
            return True
        try:
            length = self._length(available_bytes)
        except EngineRefusal:
            return False
        return self.holds(available_bytes, length)

    def holds(self, available_bytes: int, length: int) -> bool:
        """Return whether the engine makes a cache that holds a request of some length, or needs none."""
        if self.layout.caches_nothing:
            return True
        try:
            if not all(check.fits(available_bytes, length) for check in self.checks):
                return False
            self._check_layout()
        except EngineRefusal:
            return False
        return True

    def checked_length(self, available_bytes: int) -> int:
        """Return the maximum length once the engine has seen the memory; without caches nothing limits it.

        Raises:
            EngineRefusal: one request of the maximum length does not fit (stage ``memory``).
        """
        if self.layout.caches_nothing:
            return self.engine_config.max_model_len
        length = self._length(available_bytes)
        for check in self.checks:
            check.check(available_bytes, length)
        self._check_layout()
        return length

    def _length(self, available_bytes: int) -> int:
        """Return the maximum length, shortened to what fits where the engine does so."""
        length = self.engine_config.max_model_len
        return self._fitted(available_bytes, length) if self.engine_config.fit_max_model_len else length

    def _check_layout(self) -> None:
        """Refuse a layout that the engine refuses once it has seen the memory."""
        layout, engine_config = self.layout, self.engine_config
        if layout.refusal is not None:
            raise layout.refusal
        if engine_config.rules.blocks.aligned_block_in_batch is BlockInBatch.ONCE_GROUPED:
            smallest = min(group.spec.block_size for group in layout.groups)
            check_block_in_batch(smallest, engine_config, Stage.BLOCK_SIZE)

    def size(self, available_bytes: int) -> KvCache:
        """Return what the engine makes of ``available_bytes`` on every rank.

        Source: vLLM 0.19.0 to 0.32.0, v1/core/kv_cache_utils.py get_kv_cache_configs.

        Raises:
            EngineRefusal: one request of the maximum length does not fit (stage ``memory``).
        """
        return self.cache(available_bytes, self.checked_length(available_bytes))

    def cache(self, available_bytes: int, length: int) -> KvCache:
        """Return the same for a length of which a request is known to fit."""
        num_blocks = self.num_blocks(available_bytes)
        return KvCache(
            available_bytes=available_bytes,
            num_blocks=num_blocks,
            bytes_per_block=self.layout.block_bytes[0],
            largest_bytes_per_block=self.layout.largest_block,
            stage=self.layout.stages[0],
            report_lines=self.engine_config.rules.capacity.report_lines,
            **self._of_requests(num_blocks, length),
        )

    def of_other_length(self, cache: KvCache, length: int) -> KvCache:
        """Return a cache of the same bytes for another length of which a request is known to fit."""
        return changed(cache, **self._of_requests(cache.num_blocks, length))

    def _of_requests(self, num_blocks: int, length: int) -> dict[str, Any]:
        """Return the fields of a cache that depend on the maximum length."""
        blocks = self.blocks(length)
        concurrency = num_blocks / blocks
        return {
            "tokens": _tokens(self.layout, self.engine_config, num_blocks, concurrency, length),
            "max_concurrency": concurrency,
            "max_model_len": length,
            # All checks passed at this length.
            "estimated_max_model_len": length,
            "blocks_per_request": blocks,
            "demand": self.taken(length).demand,
        }

    def longest_held(self, available_bytes: int) -> int:
        """Return the tokens of the longest request that the blocks hold whole, up to the maximum length.

        Shorter than the longest that passes the engine's check where the release checks other groups than it
        counts blocks of (vLLM 0.14.0 to 0.18.1 with groups of sliding window layers).

        Raises:
            EngineRefusal: the engine makes no cache of ``available_bytes`` (stage ``memory``).
        """
        length = self.checked_length(available_bytes)
        if self.layout.caches_nothing:
            return length
        blocks = self.num_blocks(available_bytes)
        if self.blocks(length) <= blocks:
            return length
        return bisect_right(range(1, length + 1), blocks, key=self.blocks)

    def blocks(self, length: int) -> int:
        """Return what a request takes, in blocks as the release counts them for its report.

        Where every pipeline stage reports its own groups, what is read last is the last stage's.
        """
        taken = self.taken(length)
        rules = self.engine_config.rules.capacity
        stage = 0 if rules.reports_first_stage else -1
        if rules.concurrency_count is ConcurrencyCount.BLOCKS:
            return taken.stages[stage]
        groups = self.layout.stages[stage]
        size = sum(group.blocks_per_request(taken.demand) * group.page_size for group in groups)
        return ceil_div(size, groups[0].page_size)

    def num_blocks(self, available_bytes: int) -> int:
        """Return the blocks of the smallest rank."""
        override = self.engine_config.num_gpu_blocks_override
        if override is not None:
            return override
        return max(0, available_bytes // self.layout.largest_block)

    def _fitted(self, available_bytes: int, length: int) -> int:
        fitted = min(check.longest(available_bytes, length) for check in self.checks)
        if fitted == 0:
            raise EngineRefusal(
                Stage.MEMORY,
                "Cannot auto-fit max_model_len: not enough GPU memory available to serve even a single "
                "token. Try increasing `gpu_memory_utilization`.",
            )
        return fitted


def size_cache(layout: CacheLayout, engine_config: EngineConfig, available_bytes: int) -> KvCache:
    """Return what the engine makes of ``available_bytes`` on every rank.

    Raises:
        EngineRefusal: one request of the maximum length does not fit (stage ``memory``).
    """
    return CacheSizing.of(layout, engine_config).size(available_bytes)


def _tokens(
    layout: CacheLayout, engine_config: EngineConfig, num_blocks: int, concurrency: float, length: int
) -> int:
    if engine_config.rules.capacity.token_report is TokenReport.CONCURRENCY:
        return int(concurrency * length)
    smallest = min(group.spec.block_size for group in layout.groups)
    return num_blocks // len(layout.groups) * smallest * engine_config.decode_context_parallel_size
