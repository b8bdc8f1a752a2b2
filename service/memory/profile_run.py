"""The forward pass by which the engine learns what it takes besides weights and cache."""

from dataclasses import dataclass

from service.memory.weights.modules import Shards


@dataclass(frozen=True, slots=True)
class ProfileRun:
    """What one rank runs to learn its peak."""

    shards: Shards
    element_bytes: int
    tokens: int
    sequences: int
    samples: bool
    """The rank is on the last pipeline stage."""
    encodes: bool
    """The rank runs the towers."""
    v2_model_runner: bool
    """The engine's second model runner runs it."""
    draft_tokens: bool
    """Tokens are guessed ahead."""
    max_model_len: int
    data_parallel_size: int = 1
