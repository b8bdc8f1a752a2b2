"""Short convolutions and linear attention between attention layers: LFM2, Kimi Linear."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from service.architecture.config import Config
from service.architecture.families.deepseek import latent_attention
from service.architecture.families.family import Family, dense, layer_types, num_layers
from service.architecture.families.llama import attention
from service.architecture.layers import (
    DecoderLayer,
    DenseFeedForward,
    FeedForward,
    MixtureOfExperts,
    QueryKeyNorm,
)
from service.architecture.recurrence import KimiDeltaAttention, ShortConvolution
from service.units import round_up


def _lfm2(text: Config) -> tuple[DecoderLayer, ...]:
    """Source: vLLM 0.32.0, models/lfm2.py and lfm2_moe.py."""
    full = replace(attention(text), query_key_norm=QueryKeyNorm.PER_HEAD)
    state = ShortConvolution(
        channels=text.integer("conv_dim", "hidden_size"),
        conv_kernel=text.count("conv_L_cache"),
        bias=text.boolean("conv_bias"),
    )
    types = layer_types(text)
    attending = text.counts("full_attn_idxs") if "full_attn_idxs" in text else range(num_layers(text))
    return tuple(
        DecoderLayer(
            full if (types[index] == "full_attention" if types else index in attending) else state,
            _lfm2_network(text, index),
            mixer_name="" if index in attending else "short_conv",
            feed_forward_name="feed_forward",
        )
        for index in range(num_layers(text))
    )


def _lfm2_network(text: Config, index: int) -> FeedForward:
    count = text.count("num_experts", default=0, minimum=0)
    if count and index >= text.count("num_dense_layers", default=0, minimum=0):
        return MixtureOfExperts(
            num_experts=count,
            experts_per_token=text.count("num_experts_per_tok"),
            intermediate_size=text.integer("moe_intermediate_size"),
            router_bias=text.boolean("use_expert_bias"),
        )
    width = text.integer("block_ff_dim", "intermediate_size")
    if not count and text.boolean("block_auto_adjust_ff_dim", default=True):
        width = int(text.number("block_ffn_dim_multiplier", 1.0) * int(2 * width / 3))
        width = round_up(width, text.count("block_multiple_of", default=256))
    return DenseFeedForward(width)


def _kimi(text: Config) -> tuple[DecoderLayer, ...]:
    """Source: vLLM 0.19.0, models/kimi_linear.py and layers/kda.py."""
    linear = text.section("linear_attn_config") or Config({}, text.at("linear_attn_config"))
    state = KimiDeltaAttention(
        num_heads=linear.count("num_heads"),
        head_dim=linear.integer("head_dim"),
        conv_kernel=linear.count("short_conv_kernel_size"),
    )
    full, recurrent = latent_attention(text), linear.counts("kda_layers")
    return tuple(
        # The config counts layers from one.
        DecoderLayer(
            state if index + 1 in recurrent else full, _kimi_network(text, index), mixer_name="self_attn"
        )
        for index in range(num_layers(text))
    )


def _kimi_network(text: Config, index: int) -> FeedForward:
    sparse = (
        "num_experts" in text
        and index >= text.count("first_k_dense_replace", default=0, minimum=0)
        and index % text.count("moe_layer_freq", default=1) == 0
    )
    if not sparse:
        return dense(text)
    width = text.integer("moe_intermediate_size")
    return MixtureOfExperts(
        num_experts=text.count("num_experts"),
        experts_per_token=text.count("num_experts_per_token"),
        intermediate_size=width,
        shared_intermediate_size=width * text.count("num_shared_experts", default=0, minimum=0),
        router_bias=True,
    )


FAMILIES: Final[Mapping[str, Family]] = {
    "Lfm2ForCausalLM": Family(_lfm2, tied_by_default=True),
    "Lfm2MoeForCausalLM": Family(_lfm2, tied_by_default=True),
    "KimiLinearForCausalLM": Family(_kimi, attention_layers_told=False),
}
