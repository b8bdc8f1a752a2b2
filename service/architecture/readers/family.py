"""What a family of configs must tell to be read."""

from collections.abc import Callable
from dataclasses import dataclass

from service.architecture.config import Config, InvalidConfig
from service.architecture.encoders.tower import Tower
from service.architecture.layers.attention import PLAIN_WEIGHTS, Attention, AttentionWeights
from service.architecture.layers.decoder_layer import DecoderLayer
from service.architecture.layers.feed_forward import DenseFeedForward
from service.architecture.layers.hidden_streams import GatedResiduals, HyperConnections
from service.architecture.layers.model_ends import PLAIN_ENDS, ModelEnds
from service.architecture.layers.recurrence import Recurrence
from service.architecture.layers.stage_frame import ENDS_ONLY, StageFrame


@dataclass(frozen=True, slots=True)
class Family:
    """How one architecture class writes its config."""

    layers: Callable[[Config], tuple[DecoderLayer, ...]]
    """Reads the decoder's layers from the text part."""
    multimodal: bool = False
    tied_by_default: bool = False
    """Whether a config that does not say ties the output to the input embedding."""
    bidirectional_media: Callable[[Config], bool] = lambda _: False
    """Whether image tokens of this config (its text part) see each other both ways."""
    largest_media_item: int | None = None
    """Tokens of the largest image or video that the engine's own processor makes."""
    splits_media_heads: bool = False
    """Whether tensor parallelism must divide the heads of the vision tower."""
    supports_pipeline: bool = True
    """Whether the engine can split the class into pipeline stages."""
    supports_tensor: bool = True
    """Whether it can split its layers over ranks."""
    towers: Callable[[Config], tuple[Tower, ...]] | None = None
    """Reads the towers from the whole config; ``None`` when they are not known."""
    frame: StageFrame = ENDS_ONLY
    ends: Callable[[Config], ModelEnds] = lambda _: PLAIN_ENDS
    """Reads what stands before and after the layers from the text part."""
    attention_layers_specified: bool = True
    """Whether the engine finds by the config which layers of a hybrid attend."""
    tied: bool | None = None
    """Whether the class ties them whatever the config says; ``None`` lets the config decide."""
    weights_checked: bool = True
    """Whether the closed form of the weights was held against what the engine allocates."""
    encoder_tokens: Callable[[Config], int] | None = None
    """Reads the tokens that the longest input gives the encoder whose keys and values the decoder meets."""
    hyper_connections: Callable[[Config], HyperConnections | GatedResiduals | None] = lambda _: None
    """Reads what runs several copies of the hidden state side by side."""
    counted_state: Callable[[Config], Recurrence | None] = lambda _: None
    """Reads a state that blocks are aligned with, whether or not a layer keeps it."""
    attending_layers: Callable[[Config], tuple[DecoderLayer, ...]] | None = None
    """Reads the layers as releases take them that leave the class to transformers, where all attend."""
    only_backend: str | None = None
    """The attention backend without which the class is not built, with the cache in the model's type."""
    attentions_per_layer: int = 1
    """Attentions, each with a cache of its own, that the engine counts as one layer."""


@dataclass(frozen=True, slots=True)
class Wrapper:
    """A class that puts encoders of other media before a text model of its own class."""

    inner: str | None = None
    """Class of the text model; ``None`` where the text part of the config tells."""
    sections: tuple[str, ...] = ()
    """Where the text part stands, outermost first; none looks in the usual places."""
    inner_of: Callable[[Config], str] | None = None
    """Class of the text model by what the text part says."""
    model_type: str | None = None
    """``model_type`` of a text part that does not name its own."""
    bidirectional_media: Callable[[Config], bool] = lambda _: False
    splits_media_heads: bool = False
    supports_pipeline: bool = True
    towers: Callable[[Config], tuple[Tower, ...]] | None = None


def head_size(text: Config) -> int:
    """Return ``head_dim``, or the hidden size split evenly among the heads.

    Source: vLLM 0.32.0, ModelArchConfigConvertorBase.get_head_size.
    """
    return text.optional_integer("head_dim", minimum=0) or max(
        1, text.integer("hidden_size") // text.count("num_attention_heads")
    )


def num_kv_heads(text: Config) -> int:
    """Return the key/value heads, as many as query heads when not told."""
    return text.count("num_key_value_heads", default=text.count("num_attention_heads"))


def num_layers(text: Config) -> int:
    """Return the number of decoder layers."""
    return text.layers("num_hidden_layers")


def layer_types(text: Config) -> tuple[str, ...]:
    """Return ``layer_types``, one per layer, or nothing when the config has none.

    Raises:
        InvalidConfig: there are fewer types than layers.
    """
    types = text.texts("layer_types")
    if types and len(types) < num_layers(text):
        raise InvalidConfig(text.at("layer_types"), f"has {len(types)} entries for {num_layers(text)} layers")
    return types


def dense(text: Config, *, bias: bool = False) -> DenseFeedForward:
    """Return the plain gated feed-forward network that most configs describe."""
    return DenseFeedForward(text.integer("intermediate_size"), bias=bias)


def attention(
    text: Config, *, window: int | None = None, weights: AttentionWeights = PLAIN_WEIGHTS
) -> Attention:
    """Return the attention of a Llama-like layer."""
    size = head_size(text)
    return Attention(
        num_heads=text.count("num_attention_heads"),
        num_kv_heads=num_kv_heads(text),
        head_size=size,
        head_size_v=size,
        sliding_window=window,
        weights=weights,
    )
