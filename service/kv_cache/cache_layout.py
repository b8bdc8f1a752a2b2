"""The groups of a model's cache, and what follows from them for a request of any length."""

from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import TypeAlias

from service.engines.refusal import EngineRefusal
from service.engines.rules.pages import PageRules
from service.kv_cache.groups import Group
from service.kv_cache.packing import bytes_per_block
from service.kv_cache.specs import LayerSpec, SpecLayers

Run: TypeAlias = tuple[Group, int]
"""A group, and the number of groups, one behind the other, whose requests take as many blocks."""


@dataclass(frozen=True)
class CacheLayout:
    """Groups of the whole model and what each pipeline stage holds of them."""

    layers: tuple[tuple[SpecLayers, ...], ...]
    """Per stage, the layers that own a cache, before any grouping."""
    groups: tuple[Group, ...]
    stages: tuple[tuple[Group, ...], ...]
    """Per stage, its layers of every group; a group may be empty there."""
    block_size: int
    """Tokens of the engine's own block size."""
    pages: PageRules
    uncuttable_blocks: frozenset[int] = frozenset()
    """Block sizes of layers with heads that their own kernels cannot cut into theirs.

    Up to 0.30.0 the first layer's backend alone decides the size. If another backend cannot use it, the
    engine fails when it sets up its caches: vLLM 0.11.1 to 0.33.0, select_common_block_size.
    """
    refusal: EngineRefusal | None = None
    """Why there are no groups, in releases that look at the memory first."""

    @cached_property
    def caches_nothing(self) -> bool:
        """Whether no layer has a cache: the engine then sets none up (``has_kv_cache`` of its core)."""
        return not any(self.layers)

    @cached_property
    def block_bytes(self) -> tuple[int, ...]:
        """Per stage, the bytes that one block id costs."""
        return tuple(bytes_per_block(stage, self.pages.packed_block_bytes) for stage in self.stages)

    @cached_property
    def largest_block(self) -> int:
        """Bytes that one block id costs on the stage with the fewest blocks."""
        return max(self.block_bytes, default=1)

    @cached_property
    def checked_block_bytes(self) -> tuple[int, ...]:
        """Per stage, the bytes of one block id as the release's startup check counts them."""
        return tuple(bytes_per_block(stage, self.pages.packed_check_bytes) for stage in self.stages)

    @cached_property
    def runs(self) -> tuple[tuple[Run, ...], ...]:
        """Per stage, its groups; those into which the layers of one spec were split follow one another."""
        return tuple(
            tuple((run[0], len(run)) for _, each in groupby(stage, key=_taking) if (run := tuple(each)))
            for stage in self.stages
        )

    @cached_property
    def slots(self) -> Hashable:
        """What the blocks of a request depend on: of layouts that are equal in it, requests take as many."""
        return tuple(tuple((count, group.slots) for group, count in runs) for runs in self.runs)


def _taking(group: Group) -> tuple[bool, LayerSpec, tuple[LayerSpec, ...]]:
    """Return what the blocks of one request depend on."""
    return group.uniform_type, group.spec, group.specs
