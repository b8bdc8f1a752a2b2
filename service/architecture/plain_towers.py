"""Encoders that are plain transformers with biases: of Whisper, Step 3, Moondream 3, Cosmos 3 and others."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from service.architecture.config import MAX_LAYERS, Config
from service.architecture.media import IMAGE_CHANNELS
from service.architecture.towers import (
    Projection,
    Split,
    Tower,
    attention_projections,
    feed_forward_projections,
    qwen3_vl,
)

CONVOLUTION: Final = 3
"""Frames that each of Whisper's convolutions looks at."""
COMPASS_VISION: Final[Mapping[str, Any]] = {
    "depth": 27,
    "hidden_size": 1152,
    "intermediate_size": 4304,
    "num_heads": 16,
    "in_channels": 3,
    "patch_size": 16,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
    "out_hidden_size": 3584,
    "num_position_embeddings": 2304,
    "deepstack_visual_indexes": [8, 16, 24],
}
"""transformers 5.19, CohereCompassVisionConfig."""
COSMOS_VISION: Final[Mapping[str, Any]] = {
    "hidden_size": 1152,
    "intermediate_size": 4304,
    "num_hidden_layers": 27,
    "num_channels": 3,
    "patch_size": 16,
    "num_patches": 256,
    "spatial_merge_size": 2,
}
"""transformers 5.19, Cosmos3EdgeVisionConfig."""
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


def muse_glimmer(config: Config) -> tuple[Tower, ...]:
    """Read the tower of Muse Glimmer (vLLM 0.32.0, MuseGlimmerVisionEncoder and MuseGlimmerVisionAdapter)."""
    vision = config.section("vision_config")
    if vision is None or config.fields.get("has_vision") is False:
        return ()
    text = config.section("text_config") or config
    width, inner = (
        vision.integer("hidden_size", default=1536),
        vision.integer("intermediate_size", default=8960),
    )
    patch = (
        IMAGE_CHANNELS
        * vision.count("patch_temporal", default=2)
        * vision.integer("patch_size", default=14) ** 2
    )
    positions = vision.count("pos_emb_height", default=32) * vision.count("pos_emb_width", default=32)
    outputs, adapter = (
        vision.integer("output_dim", default=6144),
        vision.integer("adapter_dim", default=4096),
    )
    whole = Split.REPLICATED
    return (
        Tower(
            name="vision_encoder",
            depth=vision.integer("num_hidden_layers", default=50, maximum=MAX_LAYERS),
            layers="transformer",
            block=(
                *attention_projections(("attn.qkv_proj", "attn.o_proj"), width, bias=True, output_bias=True),
                Projection("mlp.c_fc", width, (inner,), whole, bias=True),
                Projection("mlp.c_proj", inner, (width,), whole, bias=True),
            ),
            block_elements=4 * width,
            frame=(
                Projection("vision_adapter.c_fc", outputs, (adapter,), whole),
                Projection("vision_adapter.c_proj", adapter, (adapter,), whole),
                Projection("vision_projection", adapter, (text.integer("hidden_size", default=6656),), whole),
            ),
            frame_elements=(patch + positions + 4) * width,
            quantizable=False,
        ),
    )


def cohere_compass(config: Config) -> tuple[Tower, ...]:
    """Read the tower of Cohere Compass: Qwen3-VL's (vLLM 0.32.0, Cohere_VisionTransformer)."""
    specified = config.section("vision_config")
    vision = {**COMPASS_VISION, **(specified.fields if specified is not None else {})}
    towers = qwen3_vl(replace(config, fields={**config.fields, "vision_config": vision}))
    return tuple(replace(tower, media=None) for tower in towers)


def minimax_m3(config: Config) -> tuple[Tower, ...]:
    """Read the tower of MiniMax M3 (vLLM 0.24.0 to 0.33.0, MiniMaxVLVisionModel)."""
    vision = config.section("vision_config")
    if vision is None:
        return ()
    text = config.section("text_config") or config
    compression = vision.section("img_token_compression_config") or vision
    width, inner = vision.integer("hidden_size"), vision.integer("intermediate_size")
    hidden = text.integer("hidden_size", default=6144)
    between = config.integer("projector_hidden_size", default=hidden)
    merged = hidden * compression.count("spatial_merge_size", default=2) ** 2
    frames = compression.count("temporal_patch_size", default=2)
    patch = vision.count("num_channels", default=IMAGE_CHANNELS) * frames * vision.integer("patch_size") ** 2
    return (
        Tower(
            name="vision_tower",
            depth=vision.layers("num_hidden_layers"),
            layers="vision_model.encoder.layers",
            block=(
                *attention_projections(
                    ("self_attn.qkv_proj", "self_attn.out_proj"), width, bias=True, output_bias=True
                ),
                *feed_forward_projections(("fc1", "fc2"), width, inner, gated=False, bias=True),
            ),
            block_elements=4 * width,
            frame=(
                *_pair(
                    "multi_modal_projector",
                    width,
                    between,
                    hidden,
                    bias=_biased(vision, "multimodal_projector_bias"),
                ),
                *_pair("patch_merge_mlp", merged, between, hidden, bias=_biased(vision, "patch_merge_bias")),
            ),
            frame_elements=(patch + 2) * width,
        ),
    )


def _biased(vision: Config, name: str) -> bool:
    return vision.boolean(name, default=True)


def _pair(name: str, inputs: int, between: int, outputs: int, *, bias: bool) -> tuple[Projection, ...]:
    return (
        Projection(f"vision_tower.{name}.linear_1", inputs, (between,), Split.COLUMN, bias),
        Projection(f"vision_tower.{name}.linear_2", between, (outputs,), Split.ROW, bias),
    )


def deepseek_v4(config: Config) -> tuple[Tower, ...]:
    """Read the tower of DeepSeek V4, told among the fields of the text model.

    Source: vLLM 0.30.0 to 0.33.0, deepseek_v4/common/vision.py and vl_model.py.
    """
    depth = config.integer("vision_n_layers", default=0, minimum=0, maximum=MAX_LAYERS)
    if not depth:
        return ()
    width, inner = config.integer("vision_dim"), config.integer("vision_inter_dim")
    hidden = config.integer("hidden_size")
    patch = IMAGE_CHANNELS * config.integer("vision_patch_size") ** 2
    merged = width * config.count("vision_downsample_ratio") ** 2
    # Four vectors around and between the rows of an image, of 32 bits, which are two elements each.
    marks = 4 * 2 * hidden
    return (
        Tower(
            name="vision",
            depth=depth,
            layers="blocks",
            block=(
                *attention_projections(("attn.wqkv", "attn.wo"), width, bias=True, output_bias=True),
                *feed_forward_projections(("mlp.w1", "mlp.w2"), width, inner, gated=True, bias=False),
            ),
            block_elements=2 * width,
            frame=(
                Projection("aligner.w1", merged, (hidden,), Split.COLUMN, bias=True),
                Projection("aligner.w2", hidden, (hidden,), Split.ROW, bias=True),
            ),
            frame_elements=(patch + 2) * width + marks,
            quantizable=False,
        ),
    )


def cosmos_edge(config: Config) -> tuple[Tower, ...]:
    """Read the tower of Cosmos 3 Edge and what merges its patches (vLLM 0.33.0, Cosmos3EdgeVisionModel).

    Up to 0.32.0 configs have a section of the merger's own.
    """
    specified = config.section("vision_config") or Config({}, config.at("vision_config"))
    vision = Config({**COSMOS_VISION, **specified.fields}, specified.pointer)
    merger = config.section("projector_config") or Config({}, config.at("projector_config"))
    width = vision.integer("hidden_size")
    inner = merger.integer(
        "merger_intermediate_size", default=config.integer("projector_hidden_size", default=11_520)
    )
    patch = vision.count("num_channels") * vision.integer("patch_size") ** 2
    merged = width * merger.count("spatial_merge_size", default=vision.count("spatial_merge_size")) ** 2
    text = config.section("text_config") or config
    outputs = text.integer("hidden_size", default=2048)
    return (
        Tower(
            name="visual.encoder",
            depth=vision.layers("num_hidden_layers"),
            layers="encoder.layers",
            block=_block(width, vision.integer("intermediate_size")),
            block_elements=4 * width,
            frame=(
                Projection("visual.projector.linear_fc1", merged, (inner,), Split.COLUMN, bias=True),
                Projection("visual.projector.linear_fc2", inner, (outputs,), Split.ROW, bias=True),
            ),
            frame_elements=(patch + 1 + vision.integer("num_patches") + 2 + 2) * width,
        ),
    )


def ling3(config: Config) -> tuple[Tower, ...]:
    """Read Qwen3-VL's tower, with a projector for its merger (vLLM 0.33.0, BailingMoeV3VLProjector)."""
    specified = config.section("vision_config") or Config({}, config.at("vision_config"))
    vision = {**COMPASS_VISION, **specified.fields, "deepstack_visual_indexes": []}
    text = config.section("text_config") or config
    hidden = text.integer("hidden_size", default=2048)
    return tuple(
        replace(
            tower,
            frame=(
                replace(tower.frame[0], name="linear_proj.linear_fc1", outputs=(hidden,)),
                Projection("linear_proj.linear_fc2", hidden, (hidden,), Split.ROW, bias=True),
            ),
            media=None,
        )
        for tower in qwen3_vl(Config({**config.fields, "vision_config": vision}, config.pointer))
    )
