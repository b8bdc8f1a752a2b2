"""Inkling: short convolutions before and after attention, whose latest inputs have a cache of their own."""

from collections.abc import Mapping
from typing import Final

from service.architecture.config import Config, InvalidConfig
from service.architecture.families.family import Family, num_layers
from service.architecture.layers import (
    Attention,
    DecoderLayer,
    DenseFeedForward,
    FeedForward,
    MixtureOfExperts,
    PackedConvolutions,
    QueryKeyNorm,
    RelativeScores,
)
from service.architecture.stages import ALL_EVERYWHERE, ModelEnds
from service.units import round_up

ROUTER_ROWS: Final = 8
"""vLLM 0.33.0, InklingGate: the router has a multiple of this many rows."""


def _layers(text: Config) -> tuple[DecoderLayer, ...]:
    """Source: vLLM 0.26.0 to 0.33.0, models/inkling/nvidia/model.py InklingDecoderLayer."""
    local = frozenset(text.counts("local_layer_ids"))
    full, sliding = _attention(text, None), _attention(text, text.integer("sliding_window_size"))
    return tuple(
        DecoderLayer(sliding if index in local else full, _network(text, index), mixer_name="attn")
        for index in range(num_layers(text))
    )


def _attention(text: Config, window: int | None) -> Attention:
    """Return the attention of a layer; those with a window may have heads of their own."""
    hidden, heads = text.integer("hidden_size"), text.count("num_attention_heads")
    kv_heads = text.count("num_key_value_heads")
    size = text.integer("head_dim", default=max(1, hidden // heads))
    if window is not None:
        heads = text.count("swa_num_attention_heads", default=heads)
        kv_heads = text.count("swa_num_key_value_heads", default=kv_heads)
        size = text.integer("swa_head_dim", default=size)
    return Attention(
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_size=size,
        head_size_v=size,
        sliding_window=window,
        qkv_bias=text.boolean("q_bias"),
        output_bias=text.boolean("o_bias"),
        query_key_norm=QueryKeyNorm.PER_HEAD,
        convolutions=PackedConvolutions(
            text.count("sconv_kernel_size", "conv_kernel_size", default=4), hidden
        ),
        relative=RelativeScores(text.integer("d_rel"), window or text.integer("rel_extent")),
    )


def _network(text: Config, index: int) -> FeedForward:
    """Return the network of a layer; configs spell the widths in two ways (models/inkling/configs.py)."""
    inner = text.integer("intermediate_size")
    if index < text.count("dense_mlp_idx", minimum=0):
        return DenseFeedForward(text.integer("dense_intermediate_size", default=inner))
    routed, shared = text.count("n_routed_experts"), text.count("n_shared_experts")
    if not text.boolean("shared_expert_sink"):
        raise InvalidConfig(text.at("shared_expert_sink"), "is not true: the engine knows no other experts")
    if "dense_intermediate_size" not in text:
        inner = text.integer("moe_intermediate_size", default=inner)
    return MixtureOfExperts(
        num_experts=routed,
        experts_per_token=text.count("num_experts_per_tok"),
        intermediate_size=inner,
        shared_intermediate_size=shared * inner,
        router_bias=text.boolean("use_gate_bias"),
        zero_experts=round_up(routed + shared, ROUTER_ROWS) - routed,
    )


def _ends(text: Config) -> ModelEnds:
    return ModelEnds(embedding_norm_weights=int(text.boolean("use_embed_norm")), whole_embedding=True)


FAMILIES: Final[Mapping[str, Family]] = {
    "InklingForCausalLM": Family(_layers, tied=False, ends=_ends, frame=ALL_EVERYWHERE)
}
