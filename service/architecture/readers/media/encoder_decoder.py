"""Decoders with cross attention to an encoder: Whisper and Cohere's transcriber."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from service.architecture.config import Config
from service.architecture.encoders import audio, conformer
from service.architecture.layers.attention import Attention, AttentionWeights
from service.architecture.layers.decoder_layer import DecoderLayer
from service.architecture.layers.feed_forward import DenseFeedForward, NoFeedForward
from service.architecture.layers.model_ends import ModelEnds
from service.architecture.readers.recipes.family import Family
from service.architecture.readers.recipes.recipe import LAYER_NORM
from service.units import ceil_div

SAMPLES_PER_SECOND: Final = 16_000
SECONDS_PER_FRAME: Final = 0.01
"""vLLM 0.33.0, cohere_asr.py CohereASRProcessingInfo.get_hf_processor: where the config has no others."""


def _whisper(text: Config) -> tuple[DecoderLayer, ...]:
    """Read Whisper: self-attention and cross attention as two layers (vLLM 0.32.0, WhisperDecoderLayer)."""
    pair = _pair(text, text.count("decoder_attention_heads"), text.integer("decoder_ffn_dim"), "encoder_attn")
    return pair * text.layers("decoder_layers")


def _cohere_asr(text: Config) -> tuple[DecoderLayer, ...]:
    """Read Cohere's transcriber, whose decoder is Whisper's (vLLM 0.33.0, CohereASRDecoderLayer)."""
    pair = _pair(
        text, text.count("num_attention_heads"), text.integer("intermediate_size"), "second_sub_layer"
    )
    return pair * text.layers("num_hidden_layers")


def _cohere_asr_tokens(text: Config) -> int:
    """Return the tokens of the longest clip (vLLM 0.33.0, CohereASRProcessingInfo.get_num_audio_tokens)."""
    rate = text.integer("sample_rate", default=SAMPLES_PER_SECOND)
    hop = max(1, int(text.number("window_stride", default=SECONDS_PER_FRAME) * rate))
    frames = text.integer("max_audio_clip_s") * rate // hop
    return ceil_div(frames, text.count("subsampling_factor"))


def _pair(text: Config, heads: int, inner: int, crossing: str) -> tuple[DecoderLayer, DecoderLayer]:
    size = max(1, text.integer("hidden_size") // heads)
    own = Attention(heads, heads, size, size, weights=AttentionWeights(qkv_bias=True, output_bias=True))
    network = DenseFeedForward(inner, gated=False, bias=True)
    return (
        DecoderLayer(own, NoFeedForward(), LAYER_NORM),
        DecoderLayer(replace(own, cross=True), network, 2 * LAYER_NORM, mixer_name=crossing),
    )


def _whisper_ends(text: Config) -> ModelEnds:
    return ModelEnds(
        norm_weights=LAYER_NORM,
        position_rows=text.integer("max_target_positions"),
        whole_embedding=True,
    )


FAMILIES: Final[Mapping[str, Family]] = {
    "CohereAsrForConditionalGeneration": Family(
        _cohere_asr,
        multimodal=True,
        tied=False,
        supports_pipeline=False,
        towers=conformer.cohere_asr,
        ends=lambda _: ModelEnds(
            norm_weights=LAYER_NORM,
            embedding_norm_weights=LAYER_NORM,
            output_bias=True,
            whole_embedding=True,
        ),
        attentions_per_layer=2,
        encoder_tokens=_cohere_asr_tokens,
    ),
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
