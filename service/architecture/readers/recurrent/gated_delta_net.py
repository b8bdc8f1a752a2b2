"""Gated delta nets with full attention in between: Qwen3-Next to Qwen3.6, OLMo hybrid."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from service.architecture.config import Config
from service.architecture.encoders import merged_patches
from service.architecture.layers.attention import Attention, AttentionWeights, QueryKeyNorm
from service.architecture.layers.decoder_layer import DecoderLayer, FeedForward, Mixer
from service.architecture.layers.recurrence import GatedDeltaNet
from service.architecture.layers.stage_frame import ALL_EVERYWHERE, EMBEDDING_EVERYWHERE, StageFrame
from service.architecture.readers.attention.moe import experts, is_sparse
from service.architecture.readers.recipes.family import (
    Family,
    attention,
    dense,
    head_size,
    layer_types,
    num_kv_heads,
    num_layers,
)


def gated_attention(text: Config) -> Attention:
    """Return attention whose query projection also yields a gate of the same width."""
    size = head_size(text)
    return Attention(
        num_heads=text.count("num_attention_heads"),
        num_kv_heads=num_kv_heads(text),
        head_size=size,
        head_size_v=size,
        weights=AttentionWeights(
            qkv_bias=text.boolean("qkv_bias"),
            query_key_norm=QueryKeyNorm.PER_HEAD,
            output_gate=text.boolean("attn_output_gate", default=True),
        ),
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
    """Read Intern-S2 Mobius: several layers share a bank of experts, and each has its own shared expert.

    Source: vLLM 0.28.0 to 0.33.0, models/interns2_mobius.py InternS2MobiusDecoderLayer.
    """
    shared = text.integer("shared_expert_intermediate_size")
    routed = experts(text, shared=shared, shared_gate=True)
    banked = replace(routed, weights=replace(routed.weights, banks=text.count("num_blocks")))
    norms = 4 if text.boolean("layer_scale") else 2
    return tuple(DecoderLayer(mixer, banked, norms) for mixer in _mixers(text))


def _olmo(text: Config) -> tuple[DecoderLayer, ...]:
    """Source: vLLM 0.19.0, models/olmo_hybrid.py; transformers 5.19, OlmoHybridConfig."""
    hidden, heads = text.integer("hidden_size"), text.count("num_attention_heads")
    size = max(1, hidden // heads)
    full = replace(
        attention(text, weights=AttentionWeights(query_key_norm=QueryKeyNorm.WHOLE)),
        head_size=size,
        head_size_v=size,
    )
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
    return tuple(
        DecoderLayer(state if kind == "linear_attention" else full, network) for kind in types[:count]
    )


FAMILIES: Final[Mapping[str, Family]] = {
    "Qwen3NextForCausalLM": Family(
        _layers, reads_text_part=True, tied=False, frame=StageFrame(embedding=True, output=True)
    ),
    "Qwen3_5ForCausalLM": Family(_layers, reads_text_part=True, frame=EMBEDDING_EVERYWHERE),
    "Qwen3_5MoeForCausalLM": Family(_layers, reads_text_part=True, frame=EMBEDDING_EVERYWHERE),
    "Qwen3_5ForConditionalGeneration": Family(
        _layers,
        multimodal=True,
        splits_media_heads=True,
        towers=merged_patches.qwen3_vl,
        frame=EMBEDDING_EVERYWHERE,
    ),
    "InternS2MobiusForConditionalGeneration": Family(
        _mobius,
        multimodal=True,
        splits_media_heads=True,
        towers=merged_patches.qwen3_vl,
        frame=EMBEDDING_EVERYWHERE,
    ),
    # vLLM 0.22.0, models/interns2_preview.py: a subclass that changes no layer.
    **dict.fromkeys(
        ("Qwen3_5MoeForConditionalGeneration", "InternS2PreviewForConditionalGeneration"),
        Family(
            _layers,
            multimodal=True,
            splits_media_heads=True,
            towers=merged_patches.qwen3_vl,
            frame=EMBEDDING_EVERYWHERE,
        ),
    ),
    "OlmoHybridForCausalLM": Family(_olmo, frame=ALL_EVERYWHERE),
}
