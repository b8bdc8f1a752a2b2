"""How bytes become blocks, tokens and concurrency, and which check comes before that."""

from dataclasses import dataclass
from enum import StrEnum


class ConcurrencyCount(StrEnum):
    """What one request of the maximum length is counted in."""

    FIRST_GROUP_PAGES = "first_group_pages"
    """Its bytes in pages of the first group, which is off where pages differ."""
    BLOCKS = "blocks"


class StartupCheck(StrEnum):
    """Which bytes must fit before the engine starts."""

    LAYERS = "layers"
    FIRST_GROUP_OF_MODEL = "first_group_of_model"
    FIRST_GROUP = "first_group"
    ALL_GROUPS = "all_groups"
    ALL_GROUPS_BUT_NULL_BLOCK = "all_groups_but_null_block"


class TokenReport(StrEnum):
    """What "GPU KV cache size" counts."""

    BLOCKS_PER_GROUP = "blocks_per_group"
    CONCURRENCY = "concurrency"


@dataclass(frozen=True, slots=True)
class CapacityRules:
    """How bytes become blocks, tokens and concurrency, and which check comes before that."""

    concurrency_count: ConcurrencyCount
    """What one request is counted in for the reported concurrency."""
    startup_check: StartupCheck
    """Which bytes must fit before the engine starts."""
    override_counts_as_available: bool
    """Whether --num-gpu-blocks-override also replaces the available bytes in the check."""
    token_report: TokenReport
    """What 'GPU KV cache size' counts."""
    reports_first_stage: bool
    """Whether it counts the first pipeline stage's groups, not the last one's."""
    report_lines: tuple[str, ...]
    """How the engine prints its capacity."""
    memory_refusal: str
    """The engine's message when one request does not fit."""
    no_memory_refusal: str
    """The engine's message when nothing is left for the cache."""
    free_memory_refusal: str
    """The engine's message when less memory is free than it asks for."""
    gpu_memory_utilization: int
    """Default of --gpu-memory-utilization, in hundredths."""
