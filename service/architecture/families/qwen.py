"""Qwen2, Qwen2.5 and Qwen3, dense and with experts, with or without a vision tower."""

from collections.abc import Callable, Mapping
from typing import Final

from service.architecture import towers
from service.architecture.config import Config
from service.architecture.families.family import Family, dense, num_layers
from service.architecture.families.llama import attention
from service.architecture.layers import (
    Attention,
    DecoderLayer,
    FeedForward,
    MixtureOfExperts,
    QueryKeyNorm,
)
from service.architecture.stages import ALL_EVERYWHERE


def _window(text: Config) -> int | None:
    """Return the window of all layers.

    The window of a config that mixes both kinds (``max_window_layers``) is never used: the engine sets a
    model-wide one only when every layer has it (vLLM 0.32.0, EngineArgs.create_engine_config).
    """
    if not text.boolean("use_sliding_window"):
        return None
    first_windowed = text.integer("max_window_layers", default=28, minimum=0)
    return text.optional_integer("sliding_window") if first_windowed == 0 else None


def experts(text: Config, *, shared: int, shared_gate: bool) -> MixtureOfExperts:
    """Return the routed experts of a Qwen layer."""
    return MixtureOfExperts(
        num_experts=text.count("num_experts"),
        experts_per_token=text.count("num_experts_per_tok"),
        intermediate_size=text.integer("moe_intermediate_size"),
        shared_intermediate_size=shared,
        shared_gate=shared_gate,
    )


def is_sparse(text: Config, index: int) -> bool:
    """Whether the layer routes among experts (vLLM 0.32.0, Qwen3MoeDecoderLayer)."""
    return (
        index not in text.counts("mlp_only_layers")
        and text.integer("num_experts", default=0, minimum=0) > 0
        and (index + 1) % text.count("decoder_sparse_step", default=1) == 0
    )


def decoder(
    text: Config,
    mixer: Callable[[int], Attention],
    feed_forward: Callable[[int], FeedForward],
) -> tuple[DecoderLayer, ...]:
    """Return one layer per index."""
    return tuple(DecoderLayer(mixer(index), feed_forward(index)) for index in range(num_layers(text)))


def _qwen2(text: Config) -> tuple[DecoderLayer, ...]:
    layer = DecoderLayer(attention(text, qkv_bias=True, window=_window(text)), dense(text))
    return (layer,) * num_layers(text)


def _qwen2_moe(text: Config) -> tuple[DecoderLayer, ...]:
    mixer = attention(text, qkv_bias=True, window=_window(text))

    def feed_forward(index: int) -> FeedForward:
        if not is_sparse(text, index):
            return dense(text)
        shared = text.integer("shared_expert_intermediate_size", default=0, minimum=0)
        return experts(text, shared=shared, shared_gate=shared > 0)

    return decoder(text, lambda _: mixer, feed_forward)


def _normed(text: Config) -> Attention:
    plain = attention(text, window=_window(text))
    return Attention(
        num_heads=plain.num_heads,
        num_kv_heads=plain.num_kv_heads,
        head_size=plain.head_size,
        head_size_v=plain.head_size_v,
        sliding_window=plain.sliding_window,
        qkv_bias=text.boolean("attention_bias"),
        query_key_norm=QueryKeyNorm.PER_HEAD,
    )


def _qwen3(text: Config) -> tuple[DecoderLayer, ...]:
    return (DecoderLayer(_normed(text), dense(text)),) * num_layers(text)


def _qwen3_moe(text: Config) -> tuple[DecoderLayer, ...]:
    mixer = _normed(text)

    def feed_forward(index: int) -> FeedForward:
        if not is_sparse(text, index):
            return dense(text)
        return experts(text, shared=0, shared_gate=False)

    return decoder(text, lambda _: mixer, feed_forward)


_QWEN3_VL: Final = Family(_qwen3, multimodal=True, splits_media_heads=True, towers=towers.qwen3_vl)

FAMILIES: Final[Mapping[str, Family]] = {
    "Qwen2ForCausalLM": Family(_qwen2),
    "MiMoForCausalLM": Family(_qwen2),
    "Qwen2MoeForCausalLM": Family(_qwen2_moe, frame=ALL_EVERYWHERE),
    "Qwen2VLForConditionalGeneration": Family(
        _qwen2, multimodal=True, splits_media_heads=True, towers=towers.qwen2_vl
    ),
    "Qwen2_5_VLForConditionalGeneration": Family(
        _qwen2, multimodal=True, splits_media_heads=True, towers=towers.qwen2_5_vl
    ),
    "Cosmos3ForConditionalGeneration": _QWEN3_VL,
    "Qwen3ForCausalLM": Family(_qwen3),
    "Qwen3MoeForCausalLM": Family(_qwen3_moe, frame=ALL_EVERYWHERE),
    "Qwen3VLForConditionalGeneration": _QWEN3_VL,
    "Qwen3VLMoeForConditionalGeneration": Family(
        _qwen3_moe, multimodal=True, splits_media_heads=True, towers=towers.qwen3_vl, frame=ALL_EVERYWHERE
    ),
}
