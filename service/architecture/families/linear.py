"""Short convolutions and linear attention between attention layers: LFM2, Kimi, MiniMax, Ling 2.5, OLMo."""

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
    num_kv_heads,
    num_layers,
)
from service.architecture.families.llama import attention
from service.architecture.layers import (
    Attention,
    DecoderLayer,
    DenseFeedForward,
    FeedForward,
    MixtureOfExperts,
    QueryKeyNorm,
)
from service.architecture.recurrence import (
    GatedDeltaNet,
    GroupedLinearAttention,
    KimiDeltaAttention,
    KimiK3DeltaAttention,
    LinearAttention,
    ShortConvolution,
)
from service.architecture.stages import ALL_EVERYWHERE, EMBEDDING_EVERYWHERE, ModelEnds
from service.units import round_up

KIMI_LEAST_WIDTH: Final = 256
"""vLLM 0.27.0, models/kimi_k3/nvidia/model.py KimiMoE."""


def _lfm2(text: Config) -> tuple[DecoderLayer, ...]:
    """Source: vLLM 0.32.0, models/lfm2.py and lfm2_moe.py."""
    full = replace(attention(text), query_key_norm=QueryKeyNorm.PER_HEAD)
    state = ShortConvolution(
        channels=text.integer("conv_dim", "hidden_size"),
        conv_kernel=text.count("conv_L_cache", minimum=2),
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
    """Source: vLLM 0.19.0, models/kimi_linear.py and layers/kda.py; 0.32.0, models/kimi_k3."""
    linear = text.section("linear_attn_config") or Config({}, text.at("linear_attn_config"))
    full = replace(mla_attention(text), output_gate=text.boolean("mla_use_output_gate"))
    state, recurrent = _kimi_state(linear), linear.counts("kda_layers")
    # Residuals that attend to earlier blocks take two more norms, and two projections to a number.
    norms = 6 if text.optional_integer("attn_res_block_size") else 2
    return tuple(
        # The config counts layers from one.
        DecoderLayer(
            state if index + 1 in recurrent else full,
            _kimi_network(text, index),
            norms,
            mixer_name="self_attn",
        )
        for index in range(num_layers(text))
    )


def _kimi_state(linear: Config) -> KimiDeltaAttention | KimiK3DeltaAttention:
    heads, size = linear.count("num_heads"), linear.integer("head_dim")
    kernel = linear.count("short_conv_kernel_size")
    if linear.boolean("use_full_rank_gate"):
        bounded = linear.fields.get("gate_lower_bound") is not None
        return KimiK3DeltaAttention(heads, size, kernel, bounded_gate=bounded)
    return KimiDeltaAttention(heads, size, kernel)


def _kimi_ends(text: Config) -> ModelEnds:
    return ModelEnds(norm_weights=3 if text.optional_integer("attn_res_block_size") else 1)


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
        latent_size=text.optional_integer("routed_expert_hidden_size"),
        latent_norms=int(text.boolean("latent_moe_use_norm")),
        least_width=text.count("min_moe_intermediate_per_partition", default=KIMI_LEAST_WIDTH),
    )


def _minimax(text: Config) -> tuple[DecoderLayer, ...]:
    """Source: vLLM 0.10.2 to 0.23.0, models/minimax_text_01.py."""
    full = _minimax_heads(text)
    state = LinearAttention(full.num_heads, full.head_size)
    attends = _minimax_kinds(text)
    return tuple(
        DecoderLayer(
            full if attends[index] else state,
            _minimax_network(text, index),
            mixer_name="self_attn",
            feed_forward_name="block_sparse_moe",
        )
        for index in range(num_layers(text))
    )


def _minimax_heads(text: Config) -> Attention:
    size = head_size(text)
    return Attention(
        num_heads=text.count("num_attention_heads"),
        num_kv_heads=num_kv_heads(text),
        head_size=size,
        head_size_v=size,
    )


def _minimax_attending(text: Config) -> tuple[DecoderLayer, ...]:
    """Read MiniMax as transformers runs it, beside whose linear attention the engine keeps a cache.

    Source: vLLM 0.24.0 to 0.29.0, models/transformers/base.py create_attention_instances.
    """
    layers, full = _minimax(text), _minimax_heads(text)
    return tuple(
        replace(
            layer,
            mixer=full if isinstance(layer.mixer, Attention) else replace(full, linear_weights=True),
            feed_forward=replace(layer.feed_forward, router_float32=False)
            if isinstance(layer.feed_forward, MixtureOfExperts)
            else layer.feed_forward,
        )
        for layer in layers
    )


def _minimax_kinds(text: Config) -> tuple[bool, ...]:
    """Return which layers attend in full."""
    for key in ("attn_type_list", "decoder_attention_types"):
        specified = text.counts(key)
        if specified:
            break
    else:
        types, count = layer_types(text), num_layers(text)
        # transformers 5.19, MiniMaxConfig: every other layer, from the first on.
        specified = tuple(int(kind == "full_attention") for kind in types) or tuple(
            (index + 1) % 2 for index in range(count)
        )
        key = "layer_types"
    if len(specified) < num_layers(text):
        raise InvalidConfig(text.at(key), f"has {len(specified)} entries for {num_layers(text)} layers")
    return tuple(kind == 1 for kind in specified)


def _minimax_network(text: Config, index: int) -> FeedForward:
    listed = isinstance(text.fields.get("num_local_experts"), list)
    counts = text.counts("num_local_experts") if listed else ()
    count = counts[index] if index < len(counts) else 1 if listed else text.count("num_local_experts")
    if count == 1:
        return dense(text)
    shared = text.fields.get("shared_intermediate_size")
    widths = text.counts("shared_intermediate_size") if isinstance(shared, list) else ()
    width = widths[index] if index < len(widths) else 0
    if isinstance(shared, int):
        width = text.integer("shared_intermediate_size", minimum=0)
    return MixtureOfExperts(
        num_experts=count,
        experts_per_token=text.count("num_experts_per_tok"),
        intermediate_size=text.integer("intermediate_size"),
        shared_intermediate_size=width,
        shared_gate=width > 0,
        router_float32=True,
    )


def _ling(text: Config) -> tuple[DecoderLayer, ...]:
    """Read Ling 2.5: vLLM 0.17.0 to 0.33.0, models/bailing_moe_linear.py."""
    biased = text.boolean("use_bias")
    state = GroupedLinearAttention(
        num_heads=text.count("num_attention_heads"),
        head_dim=head_size(text),
        norm_groups=text.count("group_norm_size", default=1),
        qkv_bias=biased or text.boolean("use_qkv_bias"),
        output_bias=biased,
        query_key_norm=text.boolean("use_qk_norm"),
    )
    full, group = mla_attention(text), text.count("layer_group_size", default=1)
    return tuple(
        DecoderLayer(
            full if (index + 1) % group == 0 else state, _ling_network(text, index), mixer_name="self_attn"
        )
        for index in range(num_layers(text))
    )


def _ling_network(text: Config, index: int) -> FeedForward:
    count = text.count("num_experts")
    if count == 1 or index < text.count("first_k_dense_replace", default=0, minimum=0):
        return dense(text, bias=text.boolean("use_bias"))
    width = text.integer("moe_intermediate_size")
    shared = text.integer("moe_shared_expert_intermediate_size", default=width)
    return MixtureOfExperts(
        num_experts=count,
        experts_per_token=text.count("num_experts_per_tok"),
        intermediate_size=width,
        shared_intermediate_size=shared * text.count("num_shared_experts", default=0, minimum=0),
        router_bias=text.boolean("moe_router_enable_expert_bias"),
        router_float32=text.text("router_dtype", default="fp32") == "fp32",
    )


def _olmo(text: Config) -> tuple[DecoderLayer, ...]:
    """Source: vLLM 0.19.0, models/olmo_hybrid.py; transformers 5.19, OlmoHybridConfig."""
    hidden, heads = text.integer("hidden_size"), text.count("num_attention_heads")
    size = max(1, hidden // heads)
    full = replace(attention(text), head_size=size, head_size_v=size, qkv_bias=False)
    keys = text.count("linear_num_key_heads", default=heads)
    width = text.optional_integer("linear_key_head_dim") or max(1, int(0.75 * hidden / keys))
    state = GatedDeltaNet(
        num_key_heads=keys,
        num_value_heads=text.count("linear_num_value_heads", default=heads),
        key_head_dim=width,
        value_head_dim=text.optional_integer("linear_value_head_dim") or 2 * width,
        conv_kernel=text.count("linear_conv_kernel_dim", default=4),
        separate_projections=True,
    )
    types, network, count = layer_types(text), dense(text), num_layers(text)
    if not types:
        types = tuple("linear_attention" if (index + 1) % 4 else "full_attention" for index in range(count))
        types = types if "full_attention" in types else (*types[:-1], "full_attention")
    normed = replace(full, query_key_norm=QueryKeyNorm.WHOLE, output_bias=False)
    return tuple(
        DecoderLayer(state if kind == "linear_attention" else normed, network) for kind in types[:count]
    )


_MINIMAX: Final = Family(
    _minimax, supports_pipeline=False, tied=False, ends=lambda _: ModelEnds(output_float32=True)
)
FAMILIES: Final[Mapping[str, Family]] = {
    "Lfm2ForCausalLM": Family(_lfm2, frame=EMBEDDING_EVERYWHERE, tied_by_default=True),
    "Lfm2MoeForCausalLM": Family(_lfm2, frame=EMBEDDING_EVERYWHERE, tied_by_default=True),
    "KimiLinearForCausalLM": Family(_kimi, ends=_kimi_ends, attention_layers_specified=False),
    **dict.fromkeys(("MiniMaxM1ForCausalLM", "MiniMaxText01ForCausalLM"), _MINIMAX),
    "MiniMaxForCausalLM": replace(_MINIMAX, attending_layers=_minimax_attending),
    "BailingMoeV2_5ForCausalLM": Family(_ling, attention_layers_specified=False, tied=False),
    "OlmoHybridForCausalLM": Family(_olmo, frame=ALL_EVERYWHERE),
}
