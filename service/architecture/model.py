"""What a config.json says of a model, parsed once."""

from collections.abc import Iterator
from dataclasses import dataclass

from service.architecture.context import ContextLength
from service.architecture.layers import Attention, DecoderLayer, GatedDeltaNet, LatentAttention
from service.architecture.quantization import Quantization


@dataclass(frozen=True, slots=True)
class ModelArchitecture:
    """A text-generating model, as far as memory is concerned."""

    class_name: str
    """The architecture's class, as ``architectures`` names it."""
    model_type: str
    """``model_type`` of the whole config."""
    dtype: str
    """Type of weights and activations: ``bfloat16``, ``float16`` or ``float32``."""
    hidden_size: int
    vocab_size: int
    layers: tuple[DecoderLayer, ...]
    tie_word_embeddings: bool
    context: ContextLength
    quantization: Quantization | None = None
    multimodal: bool = False
    bidirectional_media: bool = False
    """Image tokens attend to each other both ways, which only some attention backends can."""
    state_dtype: str | None = None
    """Type that the config asks for recurrent states, if it does."""

    @property
    def attention_layers(self) -> Iterator[tuple[int, Attention | LatentAttention]]:
        """Index and mixer of the layers that keep something per token, shared caches included."""
        return (
            (index, layer.mixer)
            for index, layer in enumerate(self.layers)
            if isinstance(layer.mixer, Attention | LatentAttention)
        )

    @property
    def lead_attention(self) -> Attention | LatentAttention:
        """The first attention layer, whose head counts stand for the model in the engine's own sizing."""
        return next(mixer for _, mixer in self.attention_layers)

    @property
    def recurrent_layers(self) -> Iterator[tuple[int, GatedDeltaNet]]:
        """Index and mixer of the layers that keep one state per sequence."""
        return (
            (index, layer.mixer)
            for index, layer in enumerate(self.layers)
            if isinstance(layer.mixer, GatedDeltaNet)
        )

    @property
    def is_latent(self) -> bool:
        """Whether attention is MLA."""
        return isinstance(self.lead_attention, LatentAttention)

    @property
    def is_hybrid(self) -> bool:
        """Whether recurrent layers stand beside attention."""
        return next(self.recurrent_layers, None) is not None
