"""Short convolutions whose latest inputs have a cache: LFM2, Inkling."""

from collections.abc import Mapping
from typing import Final

from service.architecture.config import Config, InvalidConfig
from service.architecture.layers.attention import (
    Attention,
    AttentionWeights,
    PackedConvolutions,
    QueryKeyNorm,
    RelativeScores,
)
from service.architecture.layers.decoder_layer import DecoderLayer, FeedForward
from service.architecture.layers.experts import ExpertWeights, MixtureOfExperts
from service.architecture.layers.feed_forward import DenseFeedForward
from service.architecture.layers.model_ends import ModelEnds
from service.architecture.layers.recurrence import ShortConvolution
from service.architecture.layers.stage_frame import ALL_EVERYWHERE, EMBEDDING_EVERYWHERE
from service.architecture.readers.recipes.family import Family, attention, evenly, layer_types, num_layers
from service.units import round_up

ROUTER_ROWS: Final = 8
"""vLLM 0.33.0, InklingGate: the router has a multiple of this many rows."""


def _inkling(text: Config) -> tuple[DecoderLayer, ...]:
    """Source: vLLM 0.26.0 to 0.33.0, models/inkling/nvidia/model.py InklingDecoderLayer."""
    local = frozenset(text.counts("local_layer_ids"))
    full, sliding = (
        _inkling_attention(text, None),
        _inkling_attention(text, text.integer("sliding_window_size")),
    )
    return tuple(
        DecoderLayer(sliding if index in local else full, _inkling_network(text, index), mixer_name="attn")
        for index in range(num_layers(text))
    )


def _inkling_attention(text: Config, window: int | None) -> Attention:
    """Return the attention of a layer; layers with a window may have other numbers and sizes of heads."""
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
        convolutions=PackedConvolutions(
            text.count("sconv_kernel_size", "conv_kernel_size", default=4), hidden
        ),
        weights=AttentionWeights(
            qkv_bias=text.boolean("q_bias"),
            output_bias=text.boolean("o_bias"),
            query_key_norm=QueryKeyNorm.PER_HEAD,
            relative=RelativeScores(text.integer("d_rel"), window or text.integer("rel_extent")),
        ),
    )


def _inkling_network(text: Config, index: int) -> FeedForward:
    """Return the network of a layer; configs name the widths in two ways (models/inkling/configs.py).

    Those that the transformers library writes have no ``dense_mlp_idx``, and no dense layers to the engine.
    """
    inner = text.integer("intermediate_size")
    if index < text.count("dense_mlp_idx", default=0, minimum=0):
        return DenseFeedForward(text.integer("dense_intermediate_size", default=inner))
    routed, shared = text.count("n_routed_experts"), text.count("n_shared_experts")
    if not text.boolean("shared_expert_sink"):
        raise InvalidConfig(
            text.at("shared_expert_sink"), "is not true: the engine's class has no other shared experts"
        )
    if "dense_intermediate_size" not in text:
        inner = text.integer("moe_intermediate_size", default=inner)
    return MixtureOfExperts(
        num_experts=routed,
        experts_per_token=text.count("num_experts_per_tok"),
        intermediate_size=inner,
        shared_intermediate_size=shared * inner,
        weights=ExpertWeights(
            router_bias=text.boolean("use_gate_bias"),
            zero_experts=round_up(routed + shared, ROUTER_ROWS) - routed,
        ),
    )


def _inkling_ends(text: Config) -> ModelEnds:
    return ModelEnds(embedding_norm_weights=int(text.boolean("use_embed_norm")), whole_embedding=True)


def _lfm2(text: Config) -> tuple[DecoderLayer, ...]:
    """Source: vLLM 0.32.0, models/lfm2.py and lfm2_moe.py."""
    full = attention(evenly(text), weights=AttentionWeights(query_key_norm=QueryKeyNorm.PER_HEAD))
    state = ShortConvolution(
        channels=text.integer("conv_dim", "hidden_size"),
        conv_kernel=text.count("conv_L_cache", minimum=2),
        bias=text.boolean("conv_bias"),
    )
    types = layer_types(text)
    listed = text.counts("full_attn_idxs") if "full_attn_idxs" in text else range(num_layers(text))
    attending = (types[i] == "full_attention" if types else i in listed for i in range(num_layers(text)))
    return tuple(
        DecoderLayer(
            full if attends else state,
            _lfm2_network(text, index),
            mixer_name="" if attends else "short_conv",
            feed_forward_name="feed_forward",
        )
        for index, attends in enumerate(attending)
    )


def _lfm2_network(text: Config, index: int) -> FeedForward:
    count = text.count("num_experts", default=0, minimum=0)
    if count and index >= text.count("num_dense_layers", default=0, minimum=0):
        return MixtureOfExperts(
            num_experts=count,
            experts_per_token=text.count("num_experts_per_tok"),
            intermediate_size=text.integer("moe_intermediate_size"),
            weights=ExpertWeights(router_bias=text.boolean("use_expert_bias")),
        )
    width = text.integer("block_ff_dim", "intermediate_size")
    if not count and text.boolean("block_auto_adjust_ff_dim", default=True):
        width = int(text.number("block_ffn_dim_multiplier", 1.0) * int(2 * width / 3))
        width = round_up(width, text.count("block_multiple_of", default=256))
    return DenseFeedForward(width)


FAMILIES: Final[Mapping[str, Family]] = {
    "InklingForCausalLM": Family(_inkling, tied=False, ends=_inkling_ends, frame=ALL_EVERYWHERE),
    "Lfm2ForCausalLM": Family(_lfm2, frame=EMBEDDING_EVERYWHERE, tied=True),
    "Lfm2MoeForCausalLM": Family(_lfm2, frame=EMBEDDING_EVERYWHERE, tied=True),
}
