"""The forward pass with which the engine measures its memory besides weights and cache."""

from dataclasses import dataclass
from typing import Final

from service.architecture.layers.compressed_attention import CompressedAttention
from service.architecture.layers.mla import MultiHeadLatentAttention
from service.architecture.model import ModelArchitecture
from service.memory.media_choices import ALL_MEDIA, MediaChoices
from service.memory.shards import Shards
from service.memory.weights.weight_layout import TowerLayout

PLAIN_TOWERS: Final = TowerLayout(
    frozenset(), frozenset(), frozenset(), frozenset(), frozenset(), frozenset()
)


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
    compiles_embedding: bool
    """The rank compiles code that reads the embedding."""
    draft_tokens: bool
    """The engine proposes draft tokens."""
    max_model_len: int | None
    """Tokens of the longest request; ``None`` where ``reads_length`` says that nothing depends on it."""
    compiled: bool = True
    """The decoder is compiled, in pieces between its attention and recurrent operations."""
    data_parallel_size: int = 1
    expert_kernel: str | None = None
    """Kernel named for routed experts; ``None``: the release chooses."""
    blackwell: bool = False
    """The GPU is a data center Blackwell."""
    dequantized: frozenset[tuple[int, int]] = frozenset()
    """Inputs and outputs of the matrices that are written out in 16 bits before they are multiplied."""
    media: MediaChoices = ALL_MEDIA
    whole_encoders: bool = False
    """Each rank has whole encoders, and encodes a part of the items."""
    towers: TowerLayout = PLAIN_TOWERS

    @property
    def length(self) -> int:
        """Tokens of the longest request.

        Raises:
            ValueError: it was left out, as something that nothing depends on.
        """
        if self.max_model_len is None:
            raise ValueError("the profile run of this model depends on the maximum length")
        return self.max_model_len


def reads_length(architecture: ModelArchitecture) -> bool:
    """Whether a profile run depends on the maximum length: its encoders' items, or work space of MLA."""
    mixers = (layer.mixer for layer in architecture.distinct_layers)
    items = any(tower.media is not None for tower in architecture.media.towers)
    return items or any(isinstance(mixer, MultiHeadLatentAttention | CompressedAttention) for mixer in mixers)
