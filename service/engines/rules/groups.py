"""Which layers share a KV cache group."""

from dataclasses import dataclass
from enum import StrEnum


class GroupMembers(StrEnum):
    """Which layers of a kind share a group."""

    CONTIGUOUS = "contiguous"
    STRIDED = "strided"


@dataclass(frozen=True, slots=True)
class GroupRules:
    """Which layers share a KV cache group."""

    uniform_type: bool
    """Whether layers of one kind form one group even where their pages differ."""
    uniform_type_per_stage: bool
    """Whether a pipeline stage pays for its own layers of a uniform type alone, or for those of all
    stages.
    """
    size_percent: int
    """The larger bucket sets the group size when it is below this percentage of the smaller one."""
    members: GroupMembers
    """Which layers of a kind share a group: neighbours, or every n-th."""
    per_stage: bool
    """Whether every pipeline stage forms its own groups, which must then be alike."""
    empty_stage_refusal: tuple[str, ...]
    """What the engine raises, and says, when a pipeline stage has no cache at all."""
    chunks_keep_hybrid_manager: bool
    """Whether models with chunked local attention have the hybrid manager, so that chunks save memory."""
    windows_become_full: bool
    """Whether windows beside MLA are allocated as full attention where pages cannot be unified otherwise."""
    window_promotion_failure: str | None
    """What the engine raises when it turns the windows of compressed attention into full ones; empty where
    that works.
    """
    promotion_refusal: str
    """The engine's message when layers cannot be turned into one kind without the hybrid manager."""
    promotion_keeps_packing: frozenset[str]
    """Kinds of layers that keep their packed cache format when promoted to full attention."""
    promotion_forgets_quantization: frozenset[str]
    """Kinds of layers that are of another spec than full ones once promoted: theirs does not say that the
    cache is quantized.
    """
    promotion_keeps_block_stride: bool
    """Whether a promoted sliding layer is still known to find pages by stride; if not, it is of another
    spec.
    """
    promotion_takes_full_block: bool
    """Whether a promoted sliding layer takes the block size of the full ones."""
    states_come_last: bool
    """Whether recurrent layers follow all attention layers in the order of groups."""
    offloading_needs_no_backend: bool
    """Whether --kv-offloading-size alone offloads blocks, without --kv-offloading-backend."""
    offloading_keeps_hybrid_manager: bool
    """Whether layers of several kinds share the pool where blocks are offloaded by the engine itself."""
    offloading_sizes_lmcache: bool
    """Whether --kv-offloading-size sets the memory that LMCache takes of the host."""
