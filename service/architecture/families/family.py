"""What a family of configs must tell to be read."""

from collections.abc import Callable
from dataclasses import dataclass

from service.architecture.config import Config, InvalidConfig
from service.architecture.layers import DecoderLayer, DenseFeedForward


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


def head_size(text: Config) -> int:
    """Return ``head_dim``, or the hidden size split evenly among the heads.

    Source: vLLM 0.32.0, ModelArchConfigConvertorBase.get_head_size.
    """
    return text.optional_integer("head_dim") or max(
        1, text.integer("hidden_size") // text.count("num_attention_heads")
    )


def num_kv_heads(text: Config) -> int:
    """Return the key/value heads, as many as query heads when not told."""
    return text.count("num_key_value_heads", default=text.count("num_attention_heads"))


def num_layers(text: Config) -> int:
    """Return the number of decoder layers."""
    return text.count("num_hidden_layers")


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
