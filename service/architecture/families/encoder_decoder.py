"""Decoders that attend across to an encoder: Whisper."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from service.architecture import plain_towers
from service.architecture.config import Config
from service.architecture.families.family import Family
from service.architecture.families.recipe import LAYER_NORM
from service.architecture.layers import (
    Attention,
    DecoderLayer,
    DenseFeedForward,
    NoFeedForward,
)
from service.architecture.stages import ModelEnds


def _whisper(text: Config) -> tuple[DecoderLayer, ...]:
    """Read Whisper: its own tokens first, then the encoder's (vLLM 0.32.0, WhisperDecoderLayer)."""
    heads = text.count("decoder_attention_heads")
    size = max(1, text.integer("hidden_size") // heads)
    own = Attention(heads, heads, size, size, qkv_bias=True, output_bias=True)
    network = DenseFeedForward(text.integer("decoder_ffn_dim"), gated=False, bias=True)
    pair = (
        DecoderLayer(own, NoFeedForward(), LAYER_NORM),
        DecoderLayer(replace(own, cross=True), network, 2 * LAYER_NORM, mixer_name="encoder_attn"),
    )
    return pair * text.layers("decoder_layers")


def _whisper_ends(text: Config) -> ModelEnds:
    return ModelEnds(
        norm_weights=LAYER_NORM,
        position_rows=text.integer("max_target_positions"),
        whole_embedding=True,
    )


FAMILIES: Final[Mapping[str, Family]] = {
    "WhisperForConditionalGeneration": Family(
        _whisper,
        multimodal=True,
        tied=True,
        supports_pipeline=False,
        towers=plain_towers.whisper,
        ends=_whisper_ends,
        attentions_per_layer=2,
        encoder_tokens=lambda text: text.integer("max_source_positions"),
    ),
}
