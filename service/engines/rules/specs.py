"""How the KVCacheSpec of one layer is built."""

from dataclasses import dataclass
from enum import StrEnum

from service.engines.cases import RowAlignedBlock


class SlidingWindowBlock(StrEnum):
    """Block size of sliding-window layers before unification."""

    MODEL = "model"
    SMALLEST_KERNEL = "smallest_kernel"
    PAGE_BUDGET = "page_budget"


@dataclass(frozen=True, slots=True)
class SpecRules:
    """How the KVCacheSpec of one layer is built."""

    sliding_window_packing: frozenset[str]
    """Packed cache formats that sliding-window layers are really sized by; others count one byte per
    element.
    """
    chunk_packing: frozenset[str]
    """Packed cache formats that chunked local layers are really sized by; others count one byte per
    element.
    """
    own_value_size: frozenset[str]
    """Layers that count a value size of their own; others count twice the key size."""
    pads_values: bool
    """Whether values that are narrower than keys are padded to their width before they are stored (MiMo
    V2).
    """
    windows_count_earlier_tokens: bool
    """Whether a window that its config counts in earlier tokens (Cohere 2) is one token wider."""
    sliding_window_block: SlidingWindowBlock
    """Block size of sliding-window layers before unification."""
    mla_kind: str
    """What kind of cache MLA layers have to the engine."""
    reused_selection_needs_no_indexer: bool
    """Whether a sparse layer that reuses an earlier layer's selection builds no indexer, and so no indexer
    cache.
    """
    row_aligned_blocks: tuple[RowAlignedBlock, ...]
    """Backends of sparse MLA for which a block's bytes over all layers are rounded up to a whole number of
    rows.
    """
    padded_rows_align_blocks: bool
    """Whether blocks over all layers are rounded to whole rows of sparse MLA."""
    windows_retain_draft_tokens: bool
    """Whether sliding windows keep the tokens that several prediction modules read again."""
    specs_state_kernel_block: bool
    """Whether layers on kernels with fixed block sizes are of another spec than those on others."""
    compressed_rows_align_blocks: bool
    """Whether blocks over all layers are rounded to whole rows of DeepSeek V4.1's fp8 and NVFP4 caches."""
