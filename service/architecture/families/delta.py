"""Delta attention as Kimi built it, in the frames of other families: Ling 3 and Alice AI."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from service.architecture.config import Config, InvalidConfig
from service.architecture.families.deepseek import mla_attention
from service.architecture.families.family import (
    Family,
    dense,
    head_size,
    layer_types,
    num_layers,
)
from service.architecture.families.qwen_gdn import gated_attention
from service.architecture.layers import (
    DecoderLayer,
    FeedForward,
    MixtureOfExperts,
    MultiHeadLatentAttention,
)
from service.architecture.recurrence import KimiDeltaAttention
from service.architecture.stages import ModelEnds


def _ling3(text: Config) -> tuple[DecoderLayer, ...]:
    """Read Ling 3: the last layer of each group attends, and so do those after the last whole group.

    Source: vLLM 0.28.0 to 0.33.0, models/bailing_moe_v3.py _is_kda_layer.
    """
    if not text.boolean("no_kda_lora"):
        raise InvalidConfig(text.at("no_kda_lora"), "is not true: the engine knows no small vectors here")
    state = KimiDeltaAttention(
        num_heads=text.count("num_attention_heads"),
        head_dim=head_size(text),
        conv_kernel=text.count("short_conv_kernel_size"),
        full_rank=True,
    )
    full, group, count = _ling3_attention(text), text.count("layer_group_size"), num_layers(text)
    grouped = count // group * group
    return tuple(
        DecoderLayer(
            state if (index + 1) % group and index < grouped else full,
            _ling3_network(text, index),
            mixer_name="self_attn",
        )
        for index in range(count)
    )


def _ling3_attention(text: Config) -> MultiHeadLatentAttention:
    gate = text.text("gated_attention_proj_granularity_type")
    return replace(
        mla_attention(text),
        qkv_bias=False,
        output_gate=gate == "element_wise",
        head_gate=gate == "head_wise",
    )


def _ling3_network(text: Config, index: int) -> FeedForward:
    if "num_experts" not in text or index < text.count("first_k_dense_replace", minimum=0):
        return dense(text, bias=text.boolean("use_bias"))
    shared = text.integer("moe_shared_expert_intermediate_size") * text.count("num_shared_experts")
    return MixtureOfExperts(
        num_experts=text.count("num_experts"),
        experts_per_token=text.count("num_experts_per_tok"),
        intermediate_size=text.integer("moe_intermediate_size"),
        shared_intermediate_size=shared,
        router_bias=True,
        router_float32=True,
    )


def _alice(text: Config) -> tuple[DecoderLayer, ...]:
    """Read Alice AI: Kimi's delta attention, Qwen's gated attention, residuals that attend to earlier ones.

    Source: vLLM 0.33.0, models/alice_ai.py AliceAIDecoderBlock.
    """
    types, count = layer_types(text), num_layers(text)
    if not types:
        raise InvalidConfig(text.at("layer_types"), "is missing")
    text.count("block_attn_res_block_size")
    full = replace(gated_attention(text), qkv_bias=False, output_gate=True)
    state = KimiDeltaAttention(
        num_heads=text.count("linear_num_key_heads"),
        head_dim=text.integer("linear_key_head_dim"),
        conv_kernel=text.count("linear_conv_kernel_dim"),
    )
    experts = MixtureOfExperts(
        num_experts=text.count("num_experts"),
        experts_per_token=text.count("num_experts_per_tok"),
        intermediate_size=text.integer("moe_intermediate_size"),
        shared_intermediate_size=text.integer("shared_expert_intermediate_size", minimum=0),
        shared_gate=True,
        router_bias=True,
    )
    return tuple(
        # Each residual has a norm and a projection to a number; the first layer attends to nothing before.
        DecoderLayer(state if types[index] == "linear_attention" else full, experts, norms=6 if index else 4)
        for index in range(count)
    )


FAMILIES: Final[Mapping[str, Family]] = {
    "BailingMoeV3ForCausalLM": Family(_ling3, attention_layers_specified=False, tied=False),
    "AliceAIForCausalLM": Family(
        _alice,
        tied=False,
        supports_pipeline=False,
        ends=lambda _: ModelEnds(norm_weights=3),
    ),
}
