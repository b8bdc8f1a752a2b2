"""Linear attention between layers of full attention: MiniMax, Ling 2.5."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from service.architecture.config import Config, InvalidConfig
from service.architecture.layers.attention import Attention
from service.architecture.layers.decoder_layer import DecoderLayer, FeedForward
from service.architecture.layers.experts import ExpertWeights, MixtureOfExperts
from service.architecture.layers.model_ends import ModelEnds
from service.architecture.layers.recurrence import GroupedLinearAttention, LinearAttention
from service.architecture.readers.attention.mla import mla_attention
from service.architecture.readers.recipes.family import (
    Family,
    dense,
    head_size,
    layer_types,
    num_kv_heads,
    num_layers,
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
    """Read MiniMax as transformers runs it: the engine allocates a cache for every layer.

    Source: vLLM 0.24.0 to 0.29.0, models/transformers/base.py create_attention_instances.
    """
    layers, full = _minimax(text), _minimax_heads(text)
    return tuple(
        replace(
            layer,
            mixer=full
            if isinstance(layer.mixer, Attention)
            else replace(full, weights=replace(full.weights, linear_weights=True)),
            feed_forward=replace(
                layer.feed_forward, weights=replace(layer.feed_forward.weights, router_float32=False)
            )
            if isinstance(layer.feed_forward, MixtureOfExperts)
            else layer.feed_forward,
        )
        for layer in layers
    )


def _minimax_kinds(text: Config) -> tuple[bool, ...]:
    """Return whether each layer has full attention."""
    for key in ("attn_type_list", "decoder_attention_types"):
        specified = text.counts(key)
        if specified:
            break
    else:
        types, count = layer_types(text), num_layers(text)
        # transformers 5.19, MiniMaxConfig: every second layer, beginning with the first.
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
        weights=ExpertWeights(
            shared_gate=width > 0,
            router_float32=True,
        ),
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
        weights=ExpertWeights(
            router_bias=text.boolean("moe_router_enable_expert_bias"),
            router_float32=text.text("router_dtype", default="fp32") == "fp32",
        ),
    )


_MINIMAX: Final = Family(
    _minimax,
    supports_pipeline=False,
    tied=False,
    ends=lambda _: ModelEnds(output_float32=True),
    # vLLM 0.10.2 to 0.23.0, minimax_text_01.py get_mamba_state_shape_from_config; asked of 0.20.2
    multiplies=("head_dim",),
)

FAMILIES: Final[Mapping[str, Family]] = {
    **dict.fromkeys(("MiniMaxM1ForCausalLM", "MiniMaxText01ForCausalLM"), _MINIMAX),
    "MiniMaxForCausalLM": replace(_MINIMAX, attending_layers=_minimax_attending),
    "BailingMoeV2_5ForCausalLM": Family(_ling, attention_layers_specified=False, tied=False),
}
