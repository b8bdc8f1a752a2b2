"""The encoders of MiniCPM-V and MiniCPM-o, whose images queries sum up."""

from dataclasses import replace
from typing import Final

from service.architecture.config import Config
from service.architecture.encoders.audio import whole_whisper
from service.architecture.encoders.siglip import (
    NORM,
    SIGLIP,
    linear_elements,
    part,
    siglip_tower,
    vision_part,
)
from service.architecture.encoders.tower import Tower, biased_block

IDEFICS2_PATCH: Final = 14
"""vLLM 0.33.0, Idefics2VisionTransformer; transformers' default is 32, and configs state 14."""
QUERIES: Final = 64
"""MiniCPM-V 2.6 and later: query_num."""
DEFAULT_SOUND: Final = {"d_model": 1024, "encoder_ffn_dim": 4096, "encoder_layers": 24, "num_mel_bins": 80}
"""Whisper medium, which MiniCPM-o's sound encoder is."""


def minicpm_v(config: Config) -> tuple[Tower, ...]:
    """Read the tower of MiniCPM-V 2.5 to 4.5 and its resampler, which every rank has.

    Source: vLLM 0.20.2 and 0.33.0, minicpmv.py Resampler2_5 and Resampler4_5; idefics2_vision_model.py.
    """
    vision = vision_part(config, {**SIGLIP, "patch_size": IDEFICS2_PATCH})
    width, hidden = vision.integer("hidden_size"), config.integer("hidden_size")
    attention = 4 * linear_elements(hidden, hidden)
    queries = config.count("query_num", default=QUERIES) * hidden
    # Norms of queries, images and outputs; a projection behind them.
    resampler = queries + hidden * (hidden + width) + attention + 3 * NORM * hidden
    depth = vision.layers("num_hidden_layers") - config.boolean("drop_vision_last_layer", default=True)
    tower = siglip_tower("vpm", vision, depth=max(0, depth), extra=NORM * width + resampler)
    return (replace(tower, block=biased_block(width, vision.integer("intermediate_size"))),)


def minicpm_o(config: Config) -> tuple[Tower, ...]:
    """Read the towers of MiniCPM-o; that of sound every rank has (vLLM 0.20.2 and 0.33.0, minicpmo.py)."""
    images = minicpm_v(config) if config.boolean("init_vision", default=True) else ()
    if not config.boolean("init_audio", default=True):
        return images
    audio, hidden = part(config, "audio_config", DEFAULT_SOUND), config.integer("hidden_size")
    width = audio.integer("d_model")
    # A whole encoder of Whisper, whose output two projections widen.
    projector = linear_elements(width, hidden) + linear_elements(hidden, hidden)
    positions = audio.integer("max_source_positions", default=1500) * width
    return (*images, whole_whisper("apm", audio, positions + projector))
