"""How many tokens a block holds."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from service.engines.cases import KernelBlock, MlaBlock


class BlockSizeChoice(StrEnum):
    """How the block size is found when none is given."""

    BEFORE_BACKENDS = "before_backends"
    FIRST_BACKEND = "first_backend"
    ALL_BACKENDS = "all_backends"


class HybridBlockSize(StrEnum):
    """When the attention block of a hybrid is aligned with the recurrent state."""

    BEFORE_BACKENDS = "before_backends"
    FORGOTTEN = "forgotten"
    """Aligned as before, but blocks fall back to the default unless a size was requested."""
    BY_BACKEND = "by_backend"


class BlockInBatch(StrEnum):
    """When a block is checked not to exceed the batch."""

    NEVER = "never"
    BY_CONFIG = "by_config"
    ONCE_GROUPED = "once_grouped"


@dataclass(frozen=True, slots=True)
class BlockRules:
    """How many tokens a block holds."""

    choice: BlockSizeChoice
    """How the block size is found when none is given."""
    mla_sizes: tuple[MlaBlock, ...]
    """Block sizes that MLA backends impose before any is chosen, even on a size that is given; the first
    that applies.
    """
    hybrid_alignment: HybridBlockSize
    """How the attention block of a hybrid is aligned with the recurrent state."""
    hybrid_kernel_blocks: tuple[KernelBlock, ...]
    """Blocks of which an aligned one is a multiple where no backend is chosen yet; the first that applies."""
    hybrid_alignment_packing: frozenset[str]
    """Cache formats that hybrid alignment counts as packed; others count one byte per element."""
    mla_hybrid_block: int
    """Least block of MLA layers beside recurrent ones."""
    hybrid_block_suits_all_backends: bool
    """Whether an aligned block is rounded up to a multiple of every backend's smallest block."""
    skip_layer_alignment: bool
    """Whether layers without cache quantization share an aligned page with the others."""
    skip_alignment_packing: Mapping[str, str]
    """Cache formats that this alignment counts as packed, and the backend of the first layer that makes
    them so, if it must.
    """
    state_block_is_block: bool
    """Whether, with prefixes cached, a state is stored per block where no attention sets another distance."""
    aligned_block_in_batch: BlockInBatch
    """When a block is checked not to exceed the batch where states are stored in mode `align`."""
    prefixes_end_inside_blocks: bool
    """Whether a cached prefix of a model with recurrent states can end inside a block, where an earlier
    prompt ended.
    """
    match_unit_refusal: str
    """What the engine says of a ``prefix_match_unit`` that does not divide every block size."""
