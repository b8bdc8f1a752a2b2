"""Llama, Mistral and Mixtral."""

from collections.abc import Mapping
from typing import Final

from service.architecture import towers
from service.architecture.config import Config
from service.architecture.families.family import (
    Family,
    dense,
    head_size,
    layer_types,
    num_kv_heads,
    num_layers,
)
from service.architecture.layers import Attention, DecoderLayer, MixtureOfExperts
from service.architecture.stages import ALL_EVERYWHERE

MISTRAL_WINDOW: Final = 4096
"""transformers, MistralConfig: the window of a config that does not mention one."""


def attention(text: Config, *, qkv_bias: bool = False, window: int | None = None) -> Attention:
    """Return the attention of a Llama-like layer."""
    size = head_size(text)
    return Attention(
        num_heads=text.count("num_attention_heads"),
        num_kv_heads=num_kv_heads(text),
        head_size=size,
        head_size_v=size,
        sliding_window=window,
        qkv_bias=qkv_bias,
    )


def model_window(text: Config, default: int | None = None) -> int | None:
    """Return the window that holds for every layer; ``0`` and ``null`` mean none.

    Source: vLLM 0.32.0, ModelConfig.__post_init__ and EngineArgs.create_engine_config.
    """
    if "sliding_window" not in text.fields:
        return default
    return text.integer("sliding_window", default=0, minimum=0) or None


def _llama(text: Config) -> tuple[DecoderLayer, ...]:
    bias = text.boolean("attention_bias") or text.boolean("bias")
    types = layer_types(text)
    window = model_window(text)
    feed_forward = dense(text, bias=text.boolean("mlp_bias"))

    def mixer(index: int) -> Attention:
        sees_all = bool(types) and types[index] != "sliding_attention"
        return attention(text, qkv_bias=bias, window=None if sees_all else window)

    return tuple(DecoderLayer(mixer(index), feed_forward) for index in range(num_layers(text)))


def _mistral(text: Config) -> tuple[DecoderLayer, ...]:
    layer = DecoderLayer(attention(text, window=model_window(text, MISTRAL_WINDOW)), dense(text))
    return (layer,) * num_layers(text)


def _mixtral(text: Config) -> tuple[DecoderLayer, ...]:
    experts = MixtureOfExperts(
        num_experts=text.count("num_local_experts", default=8),
        experts_per_token=text.count("num_experts_per_tok", default=2),
        intermediate_size=text.integer("intermediate_size"),
    )
    return (DecoderLayer(attention(text, window=model_window(text)), experts),) * num_layers(text)


FAMILIES: Final[Mapping[str, Family]] = {
    "LlamaForCausalLM": Family(_llama),
    "MistralForCausalLM": Family(_mistral),
    "MixtralForCausalLM": Family(_mixtral, frame=ALL_EVERYWHERE),
    "Mistral3ForConditionalGeneration": Family(_mistral, multimodal=True, towers=towers.pixtral),
}
