"""Which shared prefixes the cache can give back, and how many of them stay beside a workload."""

from dataclasses import dataclass
from math import gcd, lcm
from typing import Final

from service.advisor.candidates.engine_start import Start
from service.engine_config.engine_config import EngineConfig
from service.engine_config.state_caching import ALIGN
from service.engines.speculative_config import HIDDEN_STATE_METHODS
from service.kv_cache.groups import Group
from service.kv_cache.specs import CacheKind, StateSpec
from service.units import ceil_div

UNSHARED: Final = frozenset({CacheKind.CIRCULAR_BUFFER, CacheKind.CROSS_ATTENTION})
"""Kinds whose blocks belong to one request alone."""
WHOLE: Final = frozenset({CacheKind.FULL_ATTENTION, CacheKind.MLA_ATTENTION, CacheKind.SINK_FULL_ATTENTION})
"""Kinds whose blocks are looked up at finer steps than their size, as recurrent states are."""


@dataclass(frozen=True, slots=True)
class PrefixReuse:
    """Which shared prefixes the cache gives back to later requests. All but the words: ``None`` if none."""

    step_tokens: int | None
    """Tokens between two places at which a hit can end."""
    smallest_prefix_tokens: int | None
    """Tokens that two prompts must have in common before anything is found again."""
    blocks: int | None
    """Blocks of all groups that such a prefix takes."""
    kept_when_idle: int | None
    """How many different prefixes of that size stay in an idle engine."""
    kept_beside_workload: int | None
    """How many stay while the workload runs; ``None`` without a workload too."""
    explanation: str


@dataclass(frozen=True, slots=True)
class _Steps:
    """Tokens between two ends of a prefix that can be found again."""

    blocks: int
    """Ends of blocks of all groups."""
    finest: int
    """Ends that a hit can have at all: where an earlier prompt ended, it may lie inside a block."""


def prefix_reuse(start: Start, num_blocks: int, unheld_blocks: int | None) -> PrefixReuse:
    """Return the smallest shared prefix that can be found in the cache, and how many of them stay there.

    ``unheld_blocks``: blocks that a workload leaves; ``None`` without one.

    Source: vLLM 0.19.1, HybridKVCacheCoordinator.find_longest_cache_hit: the length of a hit is a multiple of
    every group's block size; 0.28.0, resolve_kv_cache_block_sizes and enable_partial_hash_hits.
    """
    engine_config = start.engine_config
    groups = tuple(group for group in start.layout.groups if group.kind not in UNSHARED)
    if not engine_config.enable_prefix_caching or not groups:
        return PrefixReuse(None, None, None, None, None, _off(groups))
    steps = _steps(groups, engine_config)
    margin = _margin(groups, engine_config)
    smallest = steps.blocks + margin
    blocks = sum(_blocks(group, smallest, engine_config) for group in groups)
    return PrefixReuse(
        step_tokens=steps.finest,
        smallest_prefix_tokens=smallest,
        blocks=blocks,
        # One block is the null block.
        kept_when_idle=(num_blocks - 1) // blocks,
        kept_beside_workload=None if unheld_blocks is None else unheld_blocks // blocks,
        explanation=_words(steps, margin, smallest, states=any(_is_state(group) for group in groups)),
    )


def _is_state(group: Group) -> bool:
    return isinstance(group.spec, StateSpec)


def _block_size(group: Group, engine_config: EngineConfig) -> int:
    """Return the tokens of a block of all ranks together; ranks share the tokens of attention alone."""
    ranks = 1 if _is_state(group) else engine_config.decode_context_parallel_size
    return group.spec.block_size * ranks


def _steps(groups: tuple[Group, ...], engine_config: EngineConfig) -> _Steps:
    sizes = tuple(_block_size(group, engine_config) for group in groups)
    common = lcm(*sizes)
    finest = engine_config.prefix_match_unit or gcd(*sizes)
    aligned = engine_config.mamba_cache_mode == ALIGN and any(_is_state(group) for group in groups)
    fine = (
        group.kind in WHOLE or _is_state(group) or size == finest
        for group, size in zip(groups, sizes, strict=True)
    )
    finer = (
        engine_config.rules.blocks.prefixes_end_inside_blocks
        and len(groups) > 1
        and aligned
        and all(fine)
        and engine_config.decode_context_parallel_size == 1
        and any(_is_state(group) and group.spec.block_size > finest for group in groups)
    )
    return _Steps(common, finest if finer else common)


def _margin(groups: tuple[Group, ...], engine_config: EngineConfig) -> int:
    """Return the tokens behind a prefix that must be found too: a draft reads the last block again.

    Source: vLLM 0.19.1, FullAttentionManager.find_longest_cache_hit with use_eagle.
    """
    drafted = engine_config.speculation
    if drafted is None or drafted.method not in HIDDEN_STATE_METHODS:
        return 0
    return max((_block_size(group, engine_config) for group in groups if not _is_state(group)), default=0)


def _blocks(group: Group, tokens: int, engine_config: EngineConfig) -> int:
    """Return the blocks of a group that a prefix takes in the cache."""
    size = _block_size(group, engine_config)
    whole = ceil_div(tokens, size)
    if isinstance(group.spec, StateSpec):
        # One state at the end of the prefix, or one for each block.
        return whole if group.spec.pages_per_request is None else 1
    window = group.spec.sliding_window
    return whole if window is None else min(whole, ceil_div(max(1, window - 1), size) + 1)


def _off(groups: tuple[Group, ...]) -> str:
    if any(_is_state(group) for group in groups):
        return (
            "No prefix is found again: prefix caching is off. The model has recurrent states, which are "
            "stored for prefixes only with --enable-prefix-caching."
        )
    return "No prefix is found again: prefix caching is off, or no group of the cache is shared."


def _words(steps: _Steps, margin: int, smallest: int, *, states: bool) -> str:
    words = (
        f"Prompts share cached blocks if their first {smallest:,} tokens or more are equal; a shorter common "
        "prefix is computed again each time."
    )
    if margin:
        words += f" Of these, the last {margin:,} are read again for the draft."
    if states and steps.finest == steps.blocks:
        words += (
            f" Recurrent states are stored at the end of a step that ends at a multiple of {steps.blocks:,} "
            "tokens, so a hit can end there alone."
        )
    if steps.finest < steps.blocks:
        words += (
            f" Where an earlier prompt ended, a hit can also end inside a block, at a multiple of "
            f"{steps.finest:,} tokens."
        )
    return words
