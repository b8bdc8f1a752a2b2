"""How the config of an architecture class is read, and the fields that most classes share."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from service.architecture.config import Config, InvalidConfig
from service.architecture.encoders.tower import Tower
from service.architecture.layers.attention import PLAIN_WEIGHTS, Attention, AttentionWeights
from service.architecture.layers.decoder_layer import DecoderLayer
from service.architecture.layers.feed_forward import DenseFeedForward
from service.architecture.layers.hidden_streams import GatedResiduals, HyperConnections
from service.architecture.layers.model_ends import PLAIN_ENDS, ModelEnds
from service.architecture.layers.recurrence import Recurrence
from service.architecture.layers.stage_frame import ENDS_ONLY, StageFrame
from service.architecture.pooling import PoolingHead

COMPLETED: Final = frozenset({"", "default", "llama3", "longrope", "yarn"})
"""Types of rotary positions whose length a config class completes, or checks."""
ORIGINAL_LENGTH: Final = "original_max_position_embeddings"


@dataclass(frozen=True, slots=True)
class Family:
    """How to read the configs of one or more architecture classes, and facts about the engine's class."""

    layers: Callable[[Config], tuple[DecoderLayer, ...]]
    """Reads the decoder's layers from the text part."""
    multimodal: bool = False
    reads_text_part: bool = False
    """Whether a class for text alone reads the text part of a config, where most read the whole config.

    Source: vLLM 0.19.0 to 0.33.0: hf_text_config in most of them, get_text_config() in qwen2.py and
    exaone_moe.py, and gemma4.py _get_text_config.
    """
    tied_by_default: bool = False
    """Whether the output is tied to the embedding where the config does not say."""
    bidirectional_media: Callable[[Config], bool] = lambda _: False
    """Returns, by the text part, whether image tokens attend to each other both ways."""
    largest_media_item: int | None = None
    """Tokens of the largest image or video that the engine's own processor makes."""
    splits_media_heads: bool = False
    """Whether tensor parallelism must divide the heads of the vision tower."""
    supports_pipeline: bool = True
    """Whether the engine can split the class into pipeline stages."""
    supports_tensor: bool = True
    """Whether it can split its layers over ranks."""
    towers: Callable[[Config], tuple[Tower, ...] | None] | None = None
    """Reads the encoders from the whole config; ``None`` where they are not modelled."""
    frame: StageFrame = ENDS_ONLY
    ends: Callable[[Config], ModelEnds] = lambda _: PLAIN_ENDS
    """Reads the weights before and after the layers from the text part."""
    attention_layers_specified: bool = True
    """Whether the config shows the engine which layers of a hybrid attend."""
    tied: bool | None = None
    """Whether the class ties output and embedding in any case; ``None`` lets the config decide."""
    weights_checked: bool = True
    """Whether the computed weights were compared with what the engine allocates."""
    encoder_tokens: Callable[[Config], int] | None = None
    """Reads the encoder's tokens of the longest input, for decoders with cross attention."""
    hyper_connections: Callable[[Config], HyperConnections | GatedResiduals | None] = lambda _: None
    """Reads how several copies of the hidden state run in parallel; ``None`` with one."""
    counted_state: Callable[[Config], Recurrence | None] = lambda _: None
    """Reads a state that the engine aligns blocks with, whether or not a layer has it."""
    declares_states: bool = True
    """Whether the class tells the engine of its states; if not, they have no block size of their own."""
    attending_layers: Callable[[Config], tuple[DecoderLayer, ...]] | None = None
    """Reads the layers for releases that run the class by transformers, where all layers attend."""
    only_backend: str | None = None
    """The attention backend that the class requires, with the cache in the model's dtype."""
    attentions_per_layer: int = 1
    """Attentions, each with a cache of its own, that the engine counts as one layer."""
    pooling: Callable[[Config], PoolingHead] | None = None
    """Reads the head of a class that returns vectors or scores; ``None``: it generates text."""
    token_pooling: Callable[[Config, Config], PoolingHead] | None = None
    """Reads the head of a class that makes a vector of each token, by the whole config and its text part."""
    lacks: Callable[[Config, Config], tuple[str, ...]] = lambda *_: ()
    """Returns the fields that the engine's class reads and that the whole config and its text part lack."""
    multiplies: tuple[str, ...] = ()
    """Fields by which the engine's class multiplies, so that ``null`` fails."""
    class_name: str = ""
    """The engine's class of the text model, where another one wraps it."""

    @property
    def reads_whole(self) -> bool:
        """Whether it is a class for text alone that reads the whole config, as most of them do."""
        return not self.multimodal and not self.reads_text_part

    @property
    def pools(self) -> bool:
        """Whether the class returns vectors or scores."""
        return self.pooling is not None or self.token_pooling is not None


@dataclass(frozen=True, slots=True)
class Wrapper:
    """A class that puts encoders of other media before a text model of its own class."""

    inner: str | None = None
    """Class of the text model; ``None`` where the text part of the config names it."""
    sections: tuple[str, ...] = ()
    """Nested sections that hold the text part, outermost first; empty uses the usual sections."""
    may_be_flat: bool = False
    """A config may have the parts of the outermost section itself."""
    inner_of: Callable[[Config], str] | None = None
    """Returns the class of the text model by fields of the text part."""
    model_type: str | None = None
    """``model_type`` of a text part that does not name its own."""
    bidirectional_media: Callable[[Config], bool] = lambda _: False
    largest_media_item: int | None = None
    splits_media_heads: bool = False
    supports_pipeline: bool = True
    towers: Callable[[Config], tuple[Tower, ...] | None] | None = None
    declares_states: bool = True
    """Whether the class tells the engine of the states of its text model."""
    lacks: Callable[[Config, Config], tuple[str, ...]] | None = None
    """As in `Family`; ``None``: what the class of the text model reads."""
    token_pooling: Callable[[Config, Config], PoolingHead] | None = None
    """As in `Family`."""


def head_size(text: Config) -> int:
    """Return ``head_dim``, or the hidden size split evenly among the heads.

    Source: vLLM 0.32.0, ModelArchConfigConvertorBase.get_head_size.
    """
    return text.optional_integer("head_dim", minimum=0) or max(
        1, text.integer("hidden_size") // text.count("num_attention_heads")
    )


def evenly(text: Config) -> Config:
    """Return a config without ``head_dim``, which many classes do not read: they split the hidden size."""
    fields = {name: value for name, value in text.fields.items() if name != "head_dim"}
    return replace(text, fields=fields) if "head_dim" in text.fields else text


def num_kv_heads(text: Config) -> int:
    """Return the number of key/value heads; without the field, that of query heads."""
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


def lacking(*names: str) -> Callable[[Config, Config], tuple[str, ...]]:
    """Return what finds those of some fields that the text part lacks."""
    return lambda _, text: tuple(name for name in names if name not in text)


def lacking_as_written(*names: str) -> Callable[[Config, Config], tuple[str, ...]]:
    """Return the same for the config as it is written: only earlier releases had defaults of these fields."""
    return lambda config, _: tuple(name for name in names if name not in config)


def lacking_in_both(*names: str) -> Callable[[Config, Config], tuple[str, ...]]:
    """Return the same for fields that the engine takes from the whole config if the text part has none."""
    return lambda config, text: tuple(name for name in names if name not in config and name not in text)


def lacking_original_length(_: Config, text: Config) -> tuple[str, ...]:
    """Return what classes that scale all positions as YaRN does lack where the config names another type.

    Source: vLLM 0.20.2 to 0.33.0, deepseek_v2.py DeepseekV2MLAAttention and rotary_embedding get_rope; of the
    types left out the config class completes the length. Asked of 0.20.2, 0.26.0 and 0.33.0.
    """
    scaling = text.section("rope_scaling") or text.section("rope_parameters")
    if scaling is None or scaling.text("rope_type", "type") in COMPLETED:
        return ()
    return () if ORIGINAL_LENGTH in scaling or ORIGINAL_LENGTH in text else (ORIGINAL_LENGTH,)


def own_fields(text: Config, index: int) -> Config:
    """Return the fields of one layer from ``per_layer_config``, whose keys may have leading zeros."""
    specified = text.section("per_layer_config") or Config({}, text.at("per_layer_config"))
    number = str(index)
    own = next((part for key, part in specified.sections() if (key.lstrip("0") or "0") == number), None)
    return own or Config({}, f"{specified.pointer}/{index}")
