"""Qwen3-Next, Qwen3.5 and Qwen3.6: gated delta nets with full attention in between."""

from collections.abc import Mapping
from dataclasses import replace
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
from service.architecture.families.qwen import experts, is_sparse
from service.architecture.layers import (
    Attention,
    DecoderLayer,
    FeedForward,
    Mixer,
    QueryKeyNorm,
)
from service.architecture.recurrence import GatedDeltaNet
from service.architecture.stages import EMBEDDING_EVERYWHERE, StageFrame


def gated_attention(text: Config) -> Attention:
    """Return attention whose queries come with a gate of their own width."""
    size = head_size(text)
    return Attention(
        num_heads=text.count("num_attention_heads"),
        num_kv_heads=num_kv_heads(text),
        head_size=size,
        head_size_v=size,
        qkv_bias=text.boolean("attention_bias"),
        query_key_norm=QueryKeyNorm.PER_HEAD,
        output_gate=text.boolean("attn_output_gate", default=True),
    )


def delta_net(text: Config) -> GatedDeltaNet:
    """Return the gated delta net of all recurrent layers."""
    return GatedDeltaNet(
        num_key_heads=text.count("linear_num_key_heads"),
        num_value_heads=text.count("linear_num_value_heads"),
        key_head_dim=text.integer("linear_key_head_dim"),
        value_head_dim=text.integer("linear_value_head_dim"),
        conv_kernel=text.count("linear_conv_kernel_dim", default=4),
    )


def _mixers(text: Config) -> tuple[Mixer, ...]:
    interval = text.count("full_attention_interval", default=4)
    types = layer_types(text) or tuple(
        "linear_attention" if (index + 1) % interval else "full_attention"
        for index in range(num_layers(text))
    )
    full, linear = gated_attention(text), delta_net(text)
    return tuple(
        linear if kind == "linear_attention" else full
        for kind, _ in zip(types, range(num_layers(text)), strict=False)
    )


def _layers(text: Config) -> tuple[DecoderLayer, ...]:
    def feed_forward(index: int) -> FeedForward:
        if not is_sparse(text, index):
            return dense(text)
        shared = text.integer("shared_expert_intermediate_size", default=0, minimum=0)
        return experts(text, shared=shared, shared_gate=shared > 0)

    return tuple(DecoderLayer(mixer, feed_forward(index)) for index, mixer in enumerate(_mixers(text)))


def _mobius(text: Config) -> tuple[DecoderLayer, ...]:
    """Read Intern-S2 Mobius: each bank of experts serves several layers, beside a shared expert of their own.

    Source: vLLM 0.28.0 to 0.33.0, models/interns2_mobius.py InternS2MobiusDecoderLayer.
    """
    shared = text.integer("shared_expert_intermediate_size")
    banked = replace(experts(text, shared=shared, shared_gate=True), banks=text.count("num_blocks"))
    norms = 4 if text.boolean("layer_scale") else 2
    return tuple(DecoderLayer(mixer, banked, norms) for mixer in _mixers(text))


FAMILIES: Final[Mapping[str, Family]] = {
    "Qwen3NextForCausalLM": Family(_layers, frame=StageFrame(embedding=True, output=True)),
    "Qwen3_5ForCausalLM": Family(_layers, frame=EMBEDDING_EVERYWHERE),
    "Qwen3_5MoeForCausalLM": Family(_layers, frame=EMBEDDING_EVERYWHERE),
    "Qwen3_5ForConditionalGeneration": Family(
        _layers, multimodal=True, splits_media_heads=True, towers=towers.qwen3_vl, frame=EMBEDDING_EVERYWHERE
    ),
    "InternS2MobiusForConditionalGeneration": Family(
        _mobius, multimodal=True, splits_media_heads=True, towers=towers.qwen3_vl, frame=EMBEDDING_EVERYWHERE
    ),
    # vLLM 0.22.0, models/interns2_preview.py: the latter's class as it is.
    **dict.fromkeys(
        ("Qwen3_5MoeForConditionalGeneration", "InternS2PreviewForConditionalGeneration"),
        Family(
            _layers,
            multimodal=True,
            splits_media_heads=True,
            towers=towers.qwen3_vl,
            frame=EMBEDDING_EVERYWHERE,
        ),
    ),
}
