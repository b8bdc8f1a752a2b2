"""Encoders that are plain transformers with biases: those of Whisper and Step 3."""

from typing import Final

from service.architecture.config import MAX_LAYERS, Config
from service.architecture.towers import (
    IMAGE_CHANNELS,
    Projection,
    Split,
    Tower,
    attention_projections,
    feed_forward_projections,
)

CONVOLUTION: Final = 3
"""Frames that each of Whisper's convolutions looks at."""
STEP3_DOWNSAMPLERS: Final = (2 * 2, 3 * 3)
"""Patches that Step 3's two convolutions after the encoder look at."""


def _block(width: int, inner: int) -> tuple[Projection, ...]:
    return (
        *attention_projections(
            ("self_attn.qkv_proj", "self_attn.out_proj"), width, bias=True, output_bias=True
        ),
        *feed_forward_projections(("mlp.fc1", "mlp.fc2"), width, inner, gated=False, bias=True),
    )


def whisper(config: Config) -> tuple[Tower, ...]:
    """Read the encoder of Whisper (vLLM 0.32.0, WhisperEncoder)."""
    width = config.integer("d_model", default=384)
    mels, positions = (
        config.count("num_mel_bins", default=80),
        config.integer("max_source_positions", default=1500),
    )
    convolutions = CONVOLUTION * (mels + width) * width + 2 * width
    return (
        Tower(
            name="model.encoder",
            depth=config.integer("encoder_layers", default=4, maximum=MAX_LAYERS),
            layers="layers",
            block=_block(width, config.integer("encoder_ffn_dim", default=1536)),
            block_elements=4 * width,
            frame=(),
            frame_elements=convolutions + positions * width + 2 * width,
        ),
    )


def step3(config: Config) -> tuple[Tower, ...]:
    """Read the tower of Step 3 (vLLM 0.32.0, Step3VisionTransformer and Step3VLForConditionalGeneration)."""
    vision = config.section("vision_config") or Config({}, config.at("vision_config"))
    text = config.section("text_config") or config
    width, outputs = (
        vision.integer("hidden_size", default=1792),
        vision.integer("output_hidden_size", default=4096),
    )
    size = vision.integer("patch_size", default=14)
    positions = (vision.integer("image_size", default=728) // size) ** 2 + 1
    patch = vision.count("num_channels", default=IMAGE_CHANNELS) * size * size
    first, second = STEP3_DOWNSAMPLERS
    downsamplers = (first * width + 1) * outputs + (second * outputs + 1) * 2 * outputs
    hidden = text.integer("hidden_size", default=7168)
    bias = config.boolean("projector_bias", default=True)
    return (
        Tower(
            name="vision_model",
            depth=vision.integer("num_hidden_layers", default=63, maximum=MAX_LAYERS),
            layers="transformer.layers",
            block=_block(width, vision.integer("intermediate_size", default=3072)),
            block_elements=4 * width,
            frame=(Projection("vit_large_projector", 2 * outputs, (hidden,), Split.REPLICATED, bias),),
            frame_elements=(patch + 1 + positions + 1) * width + downsamplers,
            quantizable=False,
        ),
    )
