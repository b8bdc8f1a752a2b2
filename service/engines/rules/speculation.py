"""Speculative decoding: methods, drafts, and what goes with them."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SpeculationRules:
    """Speculative decoding: methods, drafts, and what goes with them."""

    methods: tuple[str, ...]
    """Methods that speculative_config.method may name."""
    own_drafts: Mapping[str, str]
    """Models that have prediction (MTP) layers of their own, by model_type or architecture class, and the
    class of the draft.
    """
    refused_own_drafts: Mapping[str, str]
    """Models whose own layers cannot be used as prediction (MTP) layers, by model_type, and the refusal."""
    drafts_by_model: bool
    """Whether a model with prediction layers uses them whatever method is named, when no draft model is."""
    default_method: str | None
    """What a draft model is taken for when neither a method is named nor its name or config tells."""
    draft_model_refusal: str
    """The engine's refusal of a draft that it cannot use; the method stands for itself."""
    whole_drafts: bool
    """Whether a whole model can draft (method draft_model)."""
    drafts_are_pipelined: bool
    """Whether a draft is split into pipeline stages too, as far as its class supports it."""
    pipelined_drafts: frozenset[str]
    """Draft classes that say that they can be split into pipeline stages."""
    eagle3_targets: tuple[str, ...]
    """Parts of the model_type of models that EAGLE 3 can draft for; none: all."""
    async_methods: frozenset[str]
    """Methods with which asynchronous scheduling is on by default."""
    async_requested_methods: frozenset[str]
    """Methods that support requested asynchronous scheduling."""
    async_refusal: str
    """The engine's refusal of a method that does not go with asynchronous scheduling."""
    v2_model_runner_methods: frozenset[str]
    """Methods that run on the V2 model runner."""
    equal_vocabularies: bool
    """Whether a whole model that drafts must have as many tokens as the model."""
    draft_slots: bool
    """Whether slots that requests need for drafting are taken off the tokens of a step, of which some must
    remain.
    """
    aligned_states_refusal: str | None
    """The engine's refusal of drafts while it keeps states of blocks (mode align); empty: none."""
    drafts_align_states: bool
    """Whether only states at block ends are stored (mode align) by default with draft tokens."""
    draft_blocks_whole: bool
    """Whether a draft that proposes blocks of tokens (DSpark) refuses fewer draft tokens than one block."""
    draft_blocks_in_rounds: bool
    """Whether a draft that proposes blocks (DSpark) needs a multiple of the config's prediction layers."""
