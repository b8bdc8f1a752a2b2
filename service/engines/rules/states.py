"""Recurrent states: their dtypes, their caching and their blocks."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from service.engines.cases import StateCheckpoint


class StateCaching(StrEnum):
    """Which recurrent states prefix caching keeps."""

    NEVER = "never"
    ALL_OR_NEVER = "all_or_never"
    ALL_OR_ALIGN = "all_or_align"
    ALIGN_BY_DEFAULT = "align_by_default"
    ALIGN = "align"


@dataclass(frozen=True, slots=True)
class StateRules:
    """Recurrent states: their dtypes, their caching and their blocks."""

    hybrid_prefix_caching: bool
    """Whether prefix caching is on by default for models with recurrent layers."""
    attention_free_prefix_caching: bool
    """Whether prefix caching is on by default for models that have recurrent layers alone."""
    caching: StateCaching
    """Which recurrent states prefix caching keeps."""
    cache_modes: tuple[str, ...]
    """Values of --mamba-cache-mode, in the engine's own order."""
    dtypes: tuple[str, ...]
    """Values of --mamba-cache-dtype and --mamba-ssm-cache-dtype, in the engine's own order."""
    block_needs_caching: bool
    """Whether --mamba-block-size is refused where prefixes are not cached."""
    undeclared_failure: str
    """What the engine raises where states of which the class does not tell have no block size."""
    unchunked_refusal: str | None
    """The engine's refusal of whole prompts where states are stored in mode `align`; empty: none."""
    every_state_classes: frozenset[str]
    """Classes whose recurrent state can be stored at every block (mode `all`)."""
    single_dtype_kinds: frozenset[str]
    """Kinds of states whose recurrent part is of one type, whatever --mamba-ssm-cache-dtype says."""
    float32_linear: bool
    """Whether the states of linear attention can be stored in 32 bits."""
    own_dtype: Mapping[str, str]
    """Kinds of states whose recurrent part is not of the convolution's type by default."""
    configured_dtype: Mapping[str, str]
    """Architectures whose config sets the type of recurrent states (mamba_ssm_dtype,
    mamba_ssm_cache_dtype), and the type where it does not.
    """
    checkpoints: tuple[StateCheckpoint, ...]
    """Recurrent layers that keep one more state per request while caching prefixes, and the tokens its
    blocks are aligned to.
    """
    graphs_need_states: bool
    """Whether CUDA graphs are refused, and so the start, where more sequences may run than there are
    recurrent states.
    """
    drafted_rows: frozenset[str]
    """Kinds of states whose convolution has one more row per draft token."""
    undrafted_alignment: frozenset[str]
    """Classes whose blocks are aligned with states that have no room for draft tokens."""
    drafted: frozenset[str]
    """Values of mamba_cache_mode with which a request holds one more state per draft token."""
    drafted_refusal: str | None
    """The engine's refusal of draft tokens with states, except for Qwen3-Next; empty: none."""
    encoders_may_cache_prefixes: bool
    """Whether requested prefix caching stays on for a decoder with cross attention."""
