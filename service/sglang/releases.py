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

    def splits(self, class_name: str) -> bool:
        """Whether layers of a class with windows have a pool of their own."""
        return class_name in self.windowed if not self.unwindowed else class_name not in self.unwindowed


RELEASES: Final = EngineReleases("SGLang", "service.sglang", PoolRules, Version("0.4.9"))
