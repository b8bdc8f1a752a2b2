"""Routed experts that no recipe describes, such as sizes by layer or experts in the values of attention."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from service.architecture.config import Config, InvalidConfig
from service.architecture.encoders import pooled_patches
from service.architecture.encoders.adapted_patches import muse_spark
from service.architecture.layers.attention import Attention, AttentionWeights, QueryKeyNorm
from service.architecture.layers.decoder_layer import DecoderLayer, FeedForward
from service.architecture.layers.experts import ExpertWeights, MixtureOfExperts
from service.architecture.layers.feed_forward import DenseFeedForward
from service.architecture.layers.model_ends import ModelEnds
from service.architecture.layers.stage_frame import ALL_EVERYWHERE
from service.architecture.readers.attention.moe import MIXTRAL_EXPERTS, PER_HEAD
from service.architecture.readers.recipes.family import Family, dense, num_kv_heads, num_layers
from service.architecture.readers.recipes.recipe import LAYER_NORM, Decoder, Sparse, is_set
from service.architecture.readers.recipes.windows import by_type, model_window, no_layer


def _arctic(text: Config) -> tuple[DecoderLayer, ...]:
    """Read Arctic: layers with experts may have a dense network of the hidden size in parallel.

    Source: vLLM 0.24.0, ArcticDecoderLayer.
    """
    recipe = Decoder(windows=no_layer)
    every = text.count("moe_layer_frequency", default=2)
    beside = text.boolean("use_residual")

    def layer(index: int, plain: DecoderLayer) -> DecoderLayer:
        if (index + 1) % every:
            return plain
        experts = replace(
            MIXTRAL_EXPERTS.read(text),
            shared_intermediate_size=text.integer("hidden_size") if beside else 0,
        )
        return replace(plain, feed_forward=experts, norms=3 if beside else 2)

    return tuple(layer(index, plain) for index, plain in enumerate(recipe(text)))


def _dbrx(text: Config) -> tuple[DecoderLayer, ...]:
    attention, network = text.section("attn_config"), text.section("ffn_config")
    heads = text.count("num_attention_heads")
    mixer = replace(
        Decoder(windows=no_layer).attention(text),
        num_kv_heads=heads if attention is None else attention.count("kv_n_heads", default=heads),
    )
    part = network or text
    experts = MixtureOfExperts(
        num_experts=part.count("moe_num_experts", default=4),
        experts_per_token=part.count("moe_top_k", default=1),
        intermediate_size=part.integer("ffn_hidden_size", default=3584),
    )
    return (DecoderLayer(mixer, experts),) * num_layers(text)


def _hunyuan(text: Config) -> tuple[DecoderLayer, ...]:
    """Read Hunyuan, whose counts and widths may be lists with one entry per layer.

    Source: vLLM 0.24.0, HunYuanSparseMoeBlock.
    """
    recipe = Decoder(
        qkv_bias=("attention_bias", "bias"),
        output_bias=("attention_bias", "bias"),
        mlp_bias=("mlp_bias",),
        norm=PER_HEAD,
        norm_if=("use_qk_norm",),
    )

    def network(index: int) -> FeedForward:
        width = _entry(text, "intermediate_size", index)
        if text.count("num_experts", default=1) == 1:
            return DenseFeedForward(width, bias=is_set(text, ("mlp_bias",)))
        return MixtureOfExperts(
            num_experts=text.count("num_experts"),
            experts_per_token=_entry(text, "moe_topk", index, default=1),
            intermediate_size=_entry(text, "moe_intermediate_size", index, default=width),
            shared_intermediate_size=width * _entry(text, "num_shared_expert", index, default=1)
            if text.fields.get("use_mixed_mlp_moe")
            else 0,
        )

    mixer = recipe.attention(text)
    return tuple(DecoderLayer(mixer, network(index)) for index in range(num_layers(text)))


def _entry(text: Config, name: str, index: int, default: int | None = None) -> int:
    """Return a number of one layer, from a list with one entry per layer or from one number for all."""
    if isinstance(text.fields.get(name), list):
        values = text.counts(name)
        return max(1, values[index]) if index < len(values) else max(1, default or 1)
    return text.integer(name, default=default)


def _first(text: Config, name: str) -> int:
    """Return the number for text from a pair of numbers, for text and for images."""
    return _entry(text, name, 0)


def _ernie_vl(text: Config) -> tuple[DecoderLayer, ...]:
    """Read ERNIE 4.5 VL, which has experts for text and others for images.

    Both are counted in the same layers, as in the published models.
    Source: vLLM 0.32.0, Ernie4_5_VLMoeMoE.
    """
    width, images = _first(text, "moe_intermediate_size"), _entry(text, "moe_intermediate_size", 1)
    experts = MixtureOfExperts(
        num_experts=_first(text, "moe_num_experts"),
        experts_per_token=text.count("moe_k"),
        intermediate_size=width + images,
        shared_intermediate_size=width * text.count("moe_num_shared_experts", default=0, minimum=0),
        weights=ExpertWeights(
            router_bias=True,
            router_float32=True,
        ),
    )
    first = _first(text, "moe_layer_start_index")
    plain = Decoder(qkv_bias=("use_bias",), mlp_bias=("use_bias",))(text)
    return tuple(
        replace(layer, feed_forward=experts) if index >= first else layer for index, layer in enumerate(plain)
    )


def _k2_horizon(text: Config) -> tuple[DecoderLayer, ...]:
    """Read K2 Horizon: in layers with experts, routed projections may yield the values of attention too.

    Source: vLLM 0.32.0, K2HorizonDecoderLayer and K2HorizonMoVAAttention.
    """
    recipe = Decoder(
        qkv_bias=("attention_bias",),
        output_bias=("attention_bias",),
        norm=QueryKeyNorm.FULL,
        norm_if=("query_key_norm",),
    )
    plain = recipe.attention(text)
    weights = replace(plain.weights, output_gate="attention_gate_func" in text)
    mixer = replace(plain, sliding_window=model_window(text), weights=weights)
    values = text.count("mova_num_experts", default=0, minimum=0)
    experts = (
        Sparse(shared_count=("num_shared_experts",), router_bias=("moe_gate_bias",)).read(text)
        if text.count("num_experts", default=0, minimum=0)
        else None
    )
    every, dense_layers = text.count("decoder_sparse_step", default=1), set(text.counts("mlp_only_layers"))
    routed = replace(mixer, weights=replace(mixer.weights, value_experts=values))

    def layer(index: int) -> DecoderLayer:
        if experts is None or index in dense_layers or (index + 1) % every:
            return DecoderLayer(mixer, dense(text))
        return DecoderLayer(routed, experts)

    return tuple(map(layer, range(num_layers(text))))


def _moondream3(text: Config) -> tuple[DecoderLayer, ...]:
    """Read Moondream 3: ranks hold whole experts, and each head has two gates computed from q, k and v.

    Source: vLLM 0.32.0, Moondream3TextMoE, Moondream3Attention and transformers_utils/configs/moondream3.py.
    """
    heads, hidden = text.count("num_attention_heads"), text.integer("hidden_size")
    size = max(1, hidden // heads)
    mixer = Attention(
        heads,
        num_kv_heads(text),
        size,
        size,
        weights=AttentionWeights(
            qkv_bias=True,
            output_bias=True,
            token_gates=True,
        ),
    )
    moe = text.section("moe") or Config({}, text.at("moe"))
    first = moe.count("start_layer", default=4, minimum=0)
    experts = MixtureOfExperts(
        num_experts=moe.count("n_experts", default=64),
        experts_per_token=moe.count("n_experts_per_tok", default=8),
        intermediate_size=moe.integer("expert_inner_dim", default=1024),
        weights=ExpertWeights(
            router_bias=True,
            sharded=True,
        ),
    )
    network = DenseFeedForward(text.integer("intermediate_size"), gated=False, bias=True)

    def feed_forward(index: int) -> FeedForward:
        return experts if index >= first else network

    return tuple(DecoderLayer(mixer, feed_forward(index), LAYER_NORM) for index in range(num_layers(text)))


_MOONDREAM3: Final = Family(
    _moondream3,
    multimodal=True,
    tied=False,
    bidirectional_media=lambda _: True,
    towers=pooled_patches.moondream3,
    ends=lambda _: ModelEnds(norm_weights=LAYER_NORM, output_bias=True),
    frame=ALL_EVERYWHERE,
    splits_media_heads=True,
)
MUSE_SPARK_NORMS: Final = 5
"""Norms before the mixer, before and after the network, and two vectors that scale the residuals."""
_MUSE_SPARK: Final = Decoder(output_gate=True, windows=by_type, norms=MUSE_SPARK_NORMS)


def _muse_spark(text: Config) -> tuple[DecoderLayer, ...]:
    """Source: vLLM 0.33.0, models/muse_spark/nvidia/model.py MuseSpark1xDecoderLayer."""
    kinds, count = text.texts("mlp_layer_types"), num_layers(text)
    if len(kinds) != count:
        raise InvalidConfig(text.at("mlp_layer_types"), f"has {len(kinds)} entries for {count} layers")
    experts = MixtureOfExperts(
        num_experts=text.count("num_local_experts"),
        experts_per_token=text.count("num_experts_per_tok"),
        intermediate_size=text.integer("moe_intermediate_size"),
        weights=ExpertWeights(
            router_float32=True,
            latent_size=text.integer("moe_hidden_size"),
            latent_norms=2,
        ),
    )
    plain = dense(text) if "dense" in kinds else experts
    return tuple(
        DecoderLayer(
            layer.mixer,
            experts if kind == "sparse" else plain,
            norms=MUSE_SPARK_NORMS,
            feed_forward_name="feed_forward",
        )
        for layer, kind in zip(_MUSE_SPARK(text), kinds, strict=True)
    )


FAMILIES: Final[Mapping[str, Family]] = {
    "ArcticForCausalLM": Family(_arctic, frame=ALL_EVERYWHERE),
    "DbrxForCausalLM": Family(_dbrx, frame=ALL_EVERYWHERE),
    "Ernie4_5_VLTextForCausalLM": Family(_ernie_vl, tied_by_default=True, weights_checked=False),
    "HunYuanMoEV1ForCausalLM": Family(_hunyuan),
    "HfMoondream": _MOONDREAM3,
    "Moondream3ForCausalLM": _MOONDREAM3,
    "K2HorizonForCausalLM": Family(_k2_horizon, frame=ALL_EVERYWHERE),
    "MuseSparkForConditionalGeneration": Family(
        _muse_spark, multimodal=True, splits_media_heads=True, towers=muse_spark
    ),
}
