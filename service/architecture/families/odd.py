"""Decoders that are odd in one thing each: values from experts, windows counted backward, other key names."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from service.architecture import plain_towers
from service.architecture.config import Config
from service.architecture.families.family import (
    Family,
    dense,
    head_size,
    num_kv_heads,
    num_layers,
)
from service.architecture.families.recipe import LAYER_NORM, Decoder, Sparse
from service.architecture.families.windows import (
    by_type,
    every_layer,
    model_window,
    no_layer,
)
from service.architecture.layers import (
    Attention,
    DecoderLayer,
    DenseFeedForward,
    FeedForward,
    MixtureOfExperts,
    QueryKeyNorm,
)
from service.architecture.stages import ALL_EVERYWHERE, ModelEnds

FULL_EVERY: Final = 4
"""Muse Glimmer's layers without positions and windows: every fourth, counted from the last."""


def _k2_horizon(text: Config) -> tuple[DecoderLayer, ...]:
    """Read K2 Horizon: values of sparse layers may come from routed experts too.

    Source: vLLM 0.32.0, K2HorizonDecoderLayer and K2HorizonMoVAAttention.
    """
    mixer = replace(
        Decoder(
            qkv_bias=("attention_bias",),
            output_bias=("attention_bias",),
            norm=QueryKeyNorm.FULL,
            norm_if=("query_key_norm",),
        ).attention(text),
        sliding_window=model_window(text),
        output_gate="attention_gate_func" in text,
    )
    values = text.count("mova_num_experts", default=0, minimum=0)
    experts = (
        Sparse(shared_count=("num_shared_experts",), router_bias=("moe_gate_bias",)).read(text)
        if text.count("num_experts", default=0, minimum=0)
        else None
    )
    every, dense_layers = text.count("decoder_sparse_step", default=1), set(text.counts("mlp_only_layers"))
    routed = replace(mixer, value_experts=values)

    def layer(index: int) -> DecoderLayer:
        if experts is None or index in dense_layers or (index + 1) % every:
            return DecoderLayer(mixer, dense(text))
        return DecoderLayer(routed, experts)

    return tuple(map(layer, range(num_layers(text))))


def _muse_glimmer(text: Config) -> tuple[DecoderLayer, ...]:
    """Read Muse Glimmer: layers with positions slide (vLLM 0.32.0, MuseGlimmerAttention)."""
    count, size = num_layers(text), head_size(text)
    specified = text.counts("no_rope_layers")
    turns = (
        specified
        if len(specified) >= count
        else tuple(int((count - 1 - i) % FULL_EVERY != 0) for i in range(count))
    )
    window = text.integer("sliding_window", default=0, minimum=0) or None
    mixer = Attention(
        text.count("num_attention_heads"),
        num_kv_heads(text),
        size,
        size,
        output_gate=text.boolean("use_attn_output_gate", default=True),
    )
    return tuple(
        DecoderLayer(
            replace(mixer, sliding_window=window if turns[index] == 1 else None), dense(text), norms=4
        )
        for index in range(count)
    )


def _moondream3(text: Config) -> tuple[DecoderLayer, ...]:
    """Read Moondream 3: experts dealt out whole, and two small gates per head over all of q, k and v.

    Source: vLLM 0.32.0, Moondream3TextMoE, Moondream3Attention and transformers_utils/configs/moondream3.py.
    """
    heads, hidden = text.count("num_attention_heads"), text.integer("hidden_size")
    size = max(1, hidden // heads)
    mixer = Attention(
        heads, num_kv_heads(text), size, size, qkv_bias=True, output_bias=True, token_gates=True
    )
    moe = text.section("moe") or Config({}, text.at("moe"))
    first = moe.count("start_layer", default=4, minimum=0)
    experts = MixtureOfExperts(
        num_experts=moe.count("n_experts", default=64),
        experts_per_token=moe.count("n_experts_per_tok", default=8),
        intermediate_size=moe.integer("expert_inner_dim", default=1024),
        router_bias=True,
        sharded=True,
    )
    network = DenseFeedForward(text.integer("intermediate_size"), gated=False, bias=True)

    def feed_forward(index: int) -> FeedForward:
        return experts if index >= first else network

    return tuple(DecoderLayer(mixer, feed_forward(index), LAYER_NORM) for index in range(num_layers(text)))


def _internlm2_ve(text: Config) -> tuple[DecoderLayer, ...]:
    """Read InternLM2-VE: a second network of the same width, for the tokens of images.

    Source: vLLM 0.20.2, internlm2_ve.InternLM2VEDecoderLayer.
    """
    both = DenseFeedForward(2 * text.integer("intermediate_size"))
    return tuple(replace(layer, feed_forward=both) for layer in Decoder(windows=every_layer)(text))


def _unless_dense(text: Config, index: int) -> bool:
    """Whether ``mlp_layer_types`` leaves a layer its experts (vLLM 0.33.0, BeamDecoderLayer)."""
    types = text.texts("mlp_layer_types")
    return index >= len(types) or types[index] == "sparse"


def _declared_windows(text: Config) -> tuple[int | None, ...]:
    """Return windows of sliding layers; untold ones see all (transformers 5.19, CohereCompassTextConfig)."""
    return by_type(text) if text.texts("layer_types") else no_layer(text)


_MOONDREAM3: Final = Family(
    _moondream3,
    multimodal=True,
    tied=False,
    bidirectional_media=lambda _: True,
    towers=plain_towers.moondream3,
    ends=lambda _: ModelEnds(norm_weights=LAYER_NORM, output_bias=True),
    frame=ALL_EVERYWHERE,
    splits_media_heads=True,
)

FAMILIES: Final[Mapping[str, Family]] = {
    "BeamForCausalLM": Family(
        Decoder(
            norms=4,
            norm=QueryKeyNorm.PER_HEAD,
            output_gate=True,
            windows=by_type,
            sparse=Sparse(router_bias=True, router_float32=True, is_sparse=_unless_dense),
        ),
        tied=False,
    ),
    "CohereCompassTextModel": Family(
        Decoder(
            qkv_bias=("attention_bias",), output_bias=("attention_bias",), norms=1, windows=_declared_windows
        ),
        tied=True,
        frame=ALL_EVERYWHERE,
    ),
    "HfMoondream": _MOONDREAM3,
    "Moondream3ForCausalLM": _MOONDREAM3,
    "InternLM2VEForCausalLM": Family(_internlm2_ve, frame=ALL_EVERYWHERE),
    "K2HorizonForCausalLM": Family(_k2_horizon, frame=ALL_EVERYWHERE),
    "MuseGlimmerForCausalLM": Family(_muse_glimmer, tied=False, frame=ALL_EVERYWHERE),
}
