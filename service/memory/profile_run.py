"""The forward pass with which the engine measures its memory besides weights and cache."""

from dataclasses import dataclass
from typing import Final

from service.memory.media_choices import ALL_MEDIA, MediaChoices
from service.memory.weights.modules import Shards
from service.memory.weights.weight_layout import TowerLayout

PLAIN_TOWERS: Final = TowerLayout(frozenset(), frozenset(), frozenset())


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
    expert_kernel: str | None = None
    """Kernel named for routed experts; ``None``: the release chooses."""
    media: MediaChoices = ALL_MEDIA
    whole_encoders: bool = False
    """Each rank has whole encoders, and encodes a part of the items."""
    towers: TowerLayout = PLAIN_TOWERS
