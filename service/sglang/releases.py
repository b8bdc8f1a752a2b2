"""PoolRules: what a release of SGLang does, from dated data."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from packaging.version import Version

from service.engine_plans.engine_releases import EngineReleases


class PoolSplit(StrEnum):
    """How the budget is divided between full layers and those with a window."""

    BY_SHARE = "by_share"
    """A share of the tokens that all layers would get; only if it is asked for."""
    BY_LAYERS = "by_layers"
    """By the numbers of layers, as if all had the same size."""
    BY_COUNT = "by_count"
    """By the bytes of both kinds, from a whole number of tokens."""
    BY_BYTES = "by_bytes"
    """By the bytes of both kinds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryTier:
    """What is left to the engine to choose on GPUs of a size."""

    below_gib: int | None = None
    """GPUs with less than so many GiB, and no fewer than the tier before; ``None`` is all larger ones."""
    chunk: int
    """`--chunked-prefill-size`."""
    graph: int
    """`--cuda-graph-max-bs` of fewer than four ranks."""
    graph_many: int
    """The same of four ranks or more."""
    reserve_mib: float | None = None
    """MiB outside `--mem-fraction-static`; ``None``: calculated from the chunk and the graphs."""
    rank_mib: float = 0
    """MiB of it for each rank."""

    def holds(self, gpu_mib: int) -> bool:
        """Whether a GPU is of this tier, if it is of no smaller one."""
        return self.below_gib is None or gpu_mib < self.below_gib * 1024


@dataclass(frozen=True, slots=True)
class PoolRules:
    """What a release does."""

    newest: str
    split: PoolSplit
    windowed: frozenset[str]
    """Classes whose layers with a window have a pool of their own."""
    unwindowed: frozenset[str]
    """Classes that have none, where all others have one."""
    caps_windows: bool
    refuses_small_windows: bool
    empty_budget: str
    multimodal_mib: int
    sizes_values: bool
    spare_states: int
    fraction_floor_mib: int
    memory_tiers: tuple[MemoryTier, ...]
    """By the memory of the GPU, the smallest first."""
    prefill_graph_mib: int
    """What each size of the graphs of prefill takes of the reserve."""
    mla_prefill_graphs_mib: int
    """What all of them take of it with multi-head latent attention."""
    media_factors: tuple[float, float, float]
    """Factor of the fraction for models with images: middle, least and most."""

    def tier(self, gpu_mib: int) -> MemoryTier:
        """Return what the release chooses on a GPU with so much memory."""
        return next(tier for tier in self.memory_tiers if tier.holds(gpu_mib))

    def splits(self, class_name: str) -> bool:
        """Whether layers of a class with windows have a pool of their own."""
        return class_name in self.windowed if not self.unwindowed else class_name not in self.unwindowed


RELEASES: Final = EngineReleases("SGLang", "service.sglang", PoolRules, Version("0.4.9"))
