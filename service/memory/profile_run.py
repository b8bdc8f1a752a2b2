"""The forward pass with which the engine measures its memory besides weights and cache."""

from dataclasses import dataclass

from service.memory.weights.modules import Shards


@dataclass(frozen=True, slots=True)
class ProfileRun:
    """The profile run of one rank."""

    shards: Shards
    element_bytes: int
    tokens: int
    sequences: int
    samples: bool
    """The rank is on the last pipeline stage."""
    encodes: bool
    """The rank runs the towers."""
    v2_model_runner: bool
    """The V2 model runner runs it."""
    draft_tokens: bool
    """The engine proposes draft tokens."""
    max_model_len: int
    data_parallel_size: int = 1
