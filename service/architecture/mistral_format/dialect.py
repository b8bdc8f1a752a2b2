"""How each release reads a params.json, and its refusals."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from service.architecture.config import InvalidConfig

MOST_WORDS: Final = 300
"""Length limit in characters of a message that quotes the document."""


class DialectPart(StrEnum):
    """A part of the format that releases read in different ways, or not at all."""

    WINDOW_LISTS = "window_lists"
    """``sliding_window`` may be a pattern of windows, repeated over the layers."""
    WINDOW_TYPES = "window_types"
    """One window also becomes ``layer_types``, and a list may name one width only."""
    COMPRESSED_TENSORS = "compressed_tensors"
    """``quantization`` may be one of compressed-tensors."""
    ACTIVATION_SCALES = "activation_scales"
    """``qscheme_act`` says whether fp8 activations are scaled as they come."""
    CHECKED_SCALING = "checked_scaling"
    """``yarn`` and ``llama_4_scaling`` are checked key by key."""
    CONFIG_FILLS = "config_fills"
    """Fields that params.json lacks are taken from config.json."""
    LENGTH_OF_POSITIONS = "length_of_positions"
    """``max_seq_len`` defaults to ``max_position_embeddings``."""
    MAMBA = "mamba"
    """``model_type: mamba`` names Mamba 2."""
    SHARED_EXPERTS = "shared_experts"
    """Experts with shared experts are those of Mistral Large 3."""
    MLA_WITHOUT_EXPERTS = "mla_without_experts"
    """MLA without experts is Mistral Large 3 too."""
    STREAMING_AUDIO = "streaming_audio"
    """A causal encoder is ``VoxtralStreamingGeneration``."""
    REALTIME_AUDIO = "realtime_audio"
    """A causal encoder is ``VoxtralRealtimeGeneration``."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one release translates a params.json."""

    parts: frozenset[str]
    """Values of `Part`."""
    plain_class: str
    """Class of the translated config, which the engine names where a field is missing."""

    def reads(self, part: DialectPart) -> bool:
        """Return whether the release reads a part."""
        return part in self.parts


class RefusedParams(InvalidConfig):
    """The engine refuses this params.json, so it is no fault of the reader's.

    Attributes:
        type: name of the exception class that reaches the user.
        message: the engine's own words, or nothing where they are not known.
        building: whether it comes when the model is built, not when its config is read.
    """

    def __init__(
        self,
        pointer: str,
        message: str,
        *,
        type: str = "ValidationError",  # noqa: A002 - the contract's word
        building: bool = False,
        detail: str = "",
    ) -> None:
        words = message if len(message) <= MOST_WORDS else f"{message[:MOST_WORDS]}..."
        super().__init__(pointer, detail or words)
        self.type = type
        self.message = f"ModelConfig: {words}" if message and not building else words
        self.building = building
