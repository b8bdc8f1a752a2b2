"""How models that return vectors or scores are run (``--runner pooling``)."""

from dataclasses import dataclass
from enum import StrEnum


class PartialPrompts(StrEnum):
    """Which pooling lets prompts be computed in parts, where attention is causal."""

    LAST = "last"
    """One vector, of the last token."""
    LAST_OR_EVERY = "last_or_every"
    """One vector of the last token, or one for each token."""


@dataclass(frozen=True, slots=True)
class PoolingRules:
    """How models that return vectors or scores are run (``--runner pooling``)."""

    partial_prompts: PartialPrompts
    """Which pooling lets prompts be computed in parts, so that they are chunked and their prefixes are
    cached.
    """
    hybrids_opt_in: bool
    """Whether prefixes are not cached by default where attention stands beside recurrent layers."""
    batch_is_length: bool
    """Whether the default batch of prompts that are not chunked is exactly the maximum length."""
    schedules_ahead: bool
    """Whether asynchronous scheduling has the default of models that generate text; if not, it is off."""
    v2_model_runner: bool
    """Whether the V2 model runner runs pooling models by default."""
    generate_refusal: str
    """What the engine says where a pooling class is to generate text."""
