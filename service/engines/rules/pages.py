"""How pages of different sizes become pages of one size, or lie side by side."""

from dataclasses import dataclass
from enum import StrEnum


class PageUnification(StrEnum):
    """What happens to a layer whose page is smaller than the largest."""

    NONE = "none"
    DIVIDE = "divide"
    DIVIDE_OR_PAD_BLOCK_STRIDED = "divide_or_pad_block_strided"
    DIVIDE_OR_PAD_BLOCK_STRIDED_AND_STATES = "divide_or_pad_block_strided_and_states"
    DIVIDE_OR_PAD_UNLESS_MLA = "divide_or_pad_unless_mla"
    DIVIDE_OR_PAD_TO_DIVISOR = "divide_or_pad_to_divisor"
    """Pull request 40391: grow the page to the next divisor of the largest, then scale the block."""
    DIVIDE_OR_PAD_TO_COMMON_MULTIPLE = "divide_or_pad_to_common_multiple"
    """Pull request 40128: grow recurrent pages to the next multiple of the others' pages."""


class PackedGroups(StrEnum):
    """How layers with pages of several sizes are grouped (DeepSeek V4)."""

    NONE = "none"
    MLA_FIRST_PADDED = "mla_first_padded"
    """Compressed layers first; pages of the others are padded to theirs."""
    MLA_FIRST = "mla_first"
    IN_ORDER = "in_order"


class BlockBytes(StrEnum):
    """What one block id costs where pages of several sizes lie side by side."""

    WHOLE_ROUNDS = "whole_rounds"
    """As many pages of every size as the most frequent one has layers."""
    PAGE_SIZES = "page_sizes"
    """For every size as many pages as the group with the most."""
    WIDEST_GROUP = "widest_group"


@dataclass(frozen=True, slots=True)
class PageRules:
    """How pages of different sizes become pages of one size, or lie side by side."""

    unification: PageUnification
    """How layers with different page sizes share one pool."""
    refusal: str | None
    """The engine's message when pages cannot be unified."""
    packed_groups: PackedGroups
    """How compressed attention (DeepSeek V4) is grouped, whose pages differ in size."""
    packed_states: frozenset[str]
    """Kinds of layers whose groups, where pages of several sizes lie side by side, do not widen a block."""
    packed_block_bytes: BlockBytes
    """What one block costs where pages of several sizes lie side by side."""
    packed_check_bytes: BlockBytes
    """What one block counts for when the engine checks that one request fits, where pages differ in size."""
