"""Vision encoders whose patches are pooled, downsampled or joined by position."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from service.architecture.config import MAX_LAYERS, Config
from service.architecture.encoders.audio import gemma4_audio
from service.architecture.encoders.media import IMAGE_CHANNELS
from service.architecture.encoders.tower import (
    Projection,
    Split,
    Tower,
    attention_projections,
    biased_block,
    feed_forward_projections,
    siglip_block,
)


def siglip(config: Config) -> tuple[Tower, ...]:
    """Read the tower and projector of Gemma 3 (vLLM 0.24.0, SiglipVisionModel)."""
    vision = config.section("vision_config")
    if vision is None:
        return ()
    text = config.section("text_config") or config
    width, inner = vision.integer("hidden_size"), vision.integer("intermediate_size")
    patch = vision.integer("patch_size", default=14)
    positions = (vision.integer("image_size", default=896) // patch) ** 2
    channels = vision.count("num_channels", default=IMAGE_CHANNELS)
    return (
        Tower(
            name="vision_tower.vision_model",
            depth=vision.layers("num_hidden_layers"),
            layers="encoder.layers",
            block=siglip_block(width, inner),
            block_elements=4 * width,
            frame=(),
            frame_elements=(channels * patch * patch + 1 + 2 + 1) * width
            + width * text.integer("hidden_size"),
            position_elements=positions * width,
        ),
    )


def _gemma4_vision(vision: Config, hidden: int) -> Tower:
    width, inner = vision.integer("hidden_size"), vision.integer("intermediate_size")
    size = vision.integer("head_dim", default=width // vision.count("num_attention_heads"))
    heads = vision.count("num_attention_heads") * size
    kv_heads = vision.count("num_key_value_heads", default=vision.count("num_attention_heads")) * size
    patch = IMAGE_CHANNELS * vision.integer("patch_size", default=16) ** 2
    linear = {
        "self_attn.q_proj": (width, heads),
        "self_attn.k_proj": (width, kv_heads),
        "self_attn.v_proj": (width, kv_heads),
        "self_attn.o_proj": (heads, width),
        "mlp.gate_proj": (width, inner),
        "mlp.up_proj": (width, inner),
        "mlp.down_proj": (inner, width),
    }
    return Tower(
        name="vision_tower",
        depth=vision.layers("num_hidden_layers"),
        layers="encoder.layers",
        block=tuple(
            Projection(f"{name}.linear", inputs, (outputs,), Split.REPLICATED)
            for name, (inputs, outputs) in linear.items()
        ),
        block_elements=4 * width + 2 * size,
        frame=(
            Projection("vision_tower.patch_embedder.input_proj", patch, (width,), Split.REPLICATED),
            Projection("embed_vision.embedding_projection", width, (hidden,), Split.REPLICATED),
        ),
        frame_elements=2 * vision.integer("position_embedding_size", default=10240) * width,
        quantizable=width % 64 == 0 and inner % 64 == 0,
        quantized_by=frozenset({"bitsandbytes", "compressed-tensors"}),
    )


def gemma4(config: Config) -> tuple[Tower, ...]:
    """Read the towers of Gemma 4 (vLLM 0.24.0, Gemma4ForConditionalGeneration)."""
    hidden = (config.section("text_config") or config).integer("hidden_size")
    vision, audio = config.section("vision_config"), config.section("audio_config")
    towers = () if vision is None else (_gemma4_vision(vision, hidden),)
    return towers if audio is None else (*towers, gemma4_audio(audio, hidden))


UNIFIED_VISION: Final[Mapping[str, Any]] = {
    "model_patch_size": 48,
    "mm_embed_dim": 3840,
    "mm_posemb_size": 1120,
}
UNIFIED_SOUND: Final = 640
"""transformers 5.10 and 5.19, Gemma4UnifiedVisionConfig and Gemma4UnifiedAudioConfig."""


def gemma4_unified(config: Config) -> tuple[Tower, ...]:
    """Read the embedders of Gemma 4 Unified, which has no encoders.

    Source: vLLM 0.26.0 and 0.33.0, Gemma4UnifiedVisionEmbedder and Gemma4MultimodalEmbedder.
    """
    hidden = (config.section("text_config") or config).integer("hidden_size")
    specified, sound = config.section("vision_config"), config.section("audio_config")
    if specified is None:
        return ()
    vision = replace(specified, fields={**UNIFIED_VISION, **specified.fields})
    width = vision.integer("mm_embed_dim")
    patch = 3 * vision.integer("model_patch_size") ** 2
    # Three layer norms, and a table of positions for each of two axes.
    elements = 2 * patch + 4 * width + 2 * vision.integer("mm_posemb_size") * width
    audio = 0 if sound is None else sound.integer("output_proj_dims", default=UNIFIED_SOUND)
    return (
        Tower(
            name="vision_embedder",
            depth=0,
            layers="",
            block=(),
            block_elements=0,
            frame=(Projection("vision_embedder.patch_dense", patch, (width,), Split.COLUMN, bias=True),),
            frame_elements=elements + (vision.integer("output_proj_dims", default=width) + audio) * hidden,
        ),
    )


STEP3_DOWNSAMPLERS: Final = (2 * 2, 3 * 3)
"""Patches in the kernels of Step 3's two convolutions after the encoder."""


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
            block=biased_block(width, vision.integer("intermediate_size", default=3072)),
            block_elements=4 * width,
            frame=(Projection("vit_large_projector", 2 * outputs, (hidden,), Split.REPLICATED, bias),),
            frame_elements=(patch + 1 + positions + 1) * width + downsamplers,
            quantizable=False,
        ),
    )


def moondream3(config: Config) -> tuple[Tower, ...]:
    """Read the tower of Moondream 3 (vLLM 0.32.0, Moondream3VisionEncoder and Moondream3VisionProjection)."""
    specified = config.section("config")
    vision = (specified and specified.section("vision")) or Config({}, config.at("config"))
    text = (specified and specified.section("text")) or Config({}, config.at("config"))
    width, inner = vision.integer("enc_dim", default=1152), vision.integer("proj_inner_dim", default=8192)
    size = vision.integer("enc_patch_size", default=14)
    positions = (vision.integer("crop_size", default=378) // size) ** 2
    hidden = text.integer("dim", default=2048)
    return (
        Tower(
            name="vision",
            depth=vision.integer("enc_n_layers", default=27, maximum=MAX_LAYERS),
            layers="blocks",
            block=(
                *attention_projections(
                    ("attn.qkv_proj", "attn.out_proj"), width, bias=True, output_bias=True
                ),
                *feed_forward_projections(
                    ("mlp.fc1", "mlp.fc2"),
                    width,
                    vision.integer("enc_ff_dim", default=4304),
                    gated=False,
                    bias=True,
                ),
            ),
            block_elements=4 * width,
            frame=(
                Projection("vision_proj.fc1", 2 * width, (inner,), Split.COLUMN, bias=True),
                Projection("vision_proj.fc2", inner, (hidden,), Split.ROW, bias=True),
            ),
            frame_elements=(IMAGE_CHANNELS * size * size + 1 + positions + 2) * width,
        ),
    )
