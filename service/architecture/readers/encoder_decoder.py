"""Decoders with cross attention to an encoder: Whisper."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from service.architecture.config import Config
from service.architecture.encoders import audio
from service.architecture.layers.attention import Attention, AttentionWeights
from service.architecture.layers.decoder_layer import DecoderLayer
from service.architecture.layers.feed_forward import DenseFeedForward, NoFeedForward
from service.architecture.layers.model_ends import ModelEnds
from service.architecture.readers.family import Family
from service.architecture.readers.recipe import LAYER_NORM


def _whisper(text: Config) -> tuple[DecoderLayer, ...]:
    """Read Whisper: self-attention and cross attention as two layers (vLLM 0.32.0, WhisperDecoderLayer)."""
    heads = text.count("decoder_attention_heads")
    size = max(1, text.integer("hidden_size") // heads)
    own = Attention(heads, heads, size, size, weights=AttentionWeights(qkv_bias=True, output_bias=True))
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
        towers=audio.whisper,
        ends=_whisper_ends,
        attentions_per_layer=2,
        encoder_tokens=lambda text: text.integer("max_source_positions"),
    ),
}
