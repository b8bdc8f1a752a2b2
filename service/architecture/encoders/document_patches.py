"""Encoders of documents: dots.ocr, Keye, LightOnOCR and ERNIE 4.5, which merge squares of patches."""

from dataclasses import replace
from typing import Any, Final

from service.architecture.config import Config
from service.architecture.encoders.adapted_patches import pixtral
from service.architecture.encoders.media import IMAGE_CHANNELS
from service.architecture.encoders.siglip import (
    NORM,
    SIGLIP,
    linear_elements,
    siglip_tower,
    text_width,
    vision_part,
)
from service.architecture.encoders.tower import (
    Projection,
    Split,
    Tower,
    attention_projections,
    biased_block,
    feed_forward_projections,
)

DOTS: Final[dict[str, Any]] = {
    "embed_dim": 1536,
    "hidden_size": 1536,
    "intermediate_size": 4224,
    "num_hidden_layers": 42,
    "patch_size": 14,
}
"""vLLM 0.33.0, transformers_utils/configs/dotsocr.py DotsVisionConfig."""
ERNIE: Final[dict[str, Any]] = {"depth": 32, "embed_dim": 1280, "hidden_size": 1280, "patch_size": 14}
"""transformers 5.10, Ernie4_5_VLMoeVisionConfig, and the configs of ERNIE 4.5 VL."""
HUNYUAN: Final[dict[str, Any]] = {
    "hidden_size": 1152,
    "intermediate_size": 4304,
    "num_hidden_layers": 27,
    "out_hidden_size": 4096,
    "patch_size": 16,
    "max_image_size": 2048,
}
"""vLLM 0.20.2, transformers_utils/configs/hunyuan_vl.py HunYuanVLVisionConfig."""
KEYE_PACKED: Final = 32_768
"""vLLM 0.20.2 and 0.33.0, keye.py KeyeVisionEmbeddings: packing_position_embedding."""


def dots_ocr(config: Config) -> tuple[Tower, ...]:
    """Read the tower of dots.ocr (vLLM 0.20.2 and 0.33.0, dots_ocr.py DotsVisionTransformer)."""
    vision = vision_part(config, DOTS)
    width, inner, patch = (
        vision.integer("embed_dim"),
        vision.integer("intermediate_size"),
        vision.integer("patch_size"),
    )
    bias, last = vision.boolean("use_bias"), vision.boolean("post_norm", default=True)
    merged = width * vision.count("spatial_merge_size", default=2) ** 2
    channels = vision.count("num_channels", default=IMAGE_CHANNELS)
    outputs = vision.integer("hidden_size")
    return (
        Tower(
            name="vision_tower",
            depth=vision.layers("num_hidden_layers"),
            layers="blocks",
            block=(
                *attention_projections(("attn.qkv", "attn.proj"), width, bias=bias, output_bias=bias),
                *feed_forward_projections(("mlp.fc13", "mlp.fc2"), width, inner, gated=True, bias=bias),
            ),
            block_elements=2 * width,
            frame=tuple(
                replace(projection, quantizable=False)
                for projection in (
                    Projection("vision_tower.merger.mlp.0", merged, (merged,), Split.COLUMN, bias=True),
                    Projection("vision_tower.merger.mlp.2", merged, (outputs,), Split.ROW, bias=True),
                )
            ),
            frame_elements=(channels * patch * patch + 2 + last + NORM) * width,
        ),
    )


def keye(config: Config) -> tuple[Tower, ...]:
    """Read the tower of Keye-VL (vLLM 0.20.2 and 0.33.0, keye.py KeyeSiglipVisionModel and Projector)."""
    return (_keye(config, merged_norm=False),)


def keye_vl1_5(config: Config) -> tuple[Tower, ...]:
    """Read the tower of Keye-VL 1.5, whose projector has its norm behind the merge (keye_vl1_5.py)."""
    return (_keye(config, merged_norm=True),)


def _keye(config: Config, *, merged_norm: bool) -> Tower:
    vision = vision_part(config, SIGLIP)
    width = vision.integer("hidden_size")
    merged = width * vision.count("spatial_merge_size", default=2) ** 2
    frame = (
        Projection("mlp_AR.linear_1", merged, (merged,), Split.COLUMN, bias=True),
        Projection("mlp_AR.linear_2", merged, (config.integer("hidden_size"),), Split.ROW, bias=True),
    )
    norms = NORM * width + NORM * (merged if merged_norm else width)
    return siglip_tower("visual.vision_model", vision, frame, extra=KEYE_PACKED * width + norms)


def light_on_ocr(config: Config) -> tuple[Tower, ...]:
    """Read the tower of LightOnOCR: Pixtral's, with Mistral 3's projector (vLLM 0.33.0, lightonocr.py)."""
    return pixtral(config)


def ernie4_5_vl(config: Config) -> tuple[Tower, ...]:
    """Read the tower of ERNIE 4.5 VL and the resampler after it.

    Source: vLLM 0.20.2 and 0.33.0, ernie45_vl.py Ernie4_5_VisionTransformer and
    VariableResolutionResamplerModel, which no quantization reaches.
    """
    vision = vision_part(config, ERNIE)
    width, patch = vision.integer("embed_dim"), vision.integer("patch_size")
    inner = max(1, int(vision.integer("hidden_size") * vision.number("mlp_ratio", 4.0)))
    channels = vision.count("in_channels", "in_chans", default=IMAGE_CHANNELS)
    frame, elements = _ernie_resampler(config)
    return (
        Tower(
            name="vision_model",
            depth=vision.layers("depth"),
            layers="blocks",
            block=biased_block(width, inner, ("attn.qkv", "attn.proj")),
            block_elements=2 * NORM * width,
            frame=frame,
            frame_elements=(channels * patch * patch + NORM) * width + elements,
        ),
    )


def _ernie_resampler(config: Config) -> tuple[tuple[Projection, ...], int]:
    inputs, hidden = config.integer("pixel_hidden_size", default=1280), text_width(config)
    spatial = inputs * config.count("spatial_conv_size", default=2) ** 2
    temporal = config.boolean("use_temporal_conv", default=True)
    names = {"spatial_linear1": (spatial, spatial), "spatial_linear2": (spatial, spatial)}
    if temporal:
        frames = config.count("temporal_conv_size", default=2)
        names |= {"temporal_linear1": (spatial * frames, spatial), "temporal_linear2": (spatial, spatial)}
    names["mlp"] = (spatial, hidden)
    frame = tuple(
        Projection(f"resampler_model.{name}", i, (o,), Split.COLUMN, bias=True, quantizable=False)
        for name, (i, o) in names.items()
    )
    return frame, NORM * spatial * (1 + temporal) + hidden


def hunyuan_vl(config: Config) -> tuple[Tower, ...]:
    """Read the tower of HunYuan-VL and HunyuanOCR, as the engine's own class built it.

    Source: vLLM 0.20.2, hunyuan_vision.py HunYuanVisionTransformer, and configs/hunyuan_vl.py.
    """
    vision = vision_part(config, HUNYUAN)
    width, outputs = vision.integer("hidden_size"), vision.integer("out_hidden_size")
    patch = vision.integer("patch_size")
    channels = vision.count("num_channels", default=IMAGE_CHANNELS)
    positions = (vision.integer("max_image_size") // patch) ** 2 + 1
    merge = vision.count("spatial_merge_size", default=2) ** 2
    convolutions = linear_elements(merge * width, 2 * width) + linear_elements(2 * width, 4 * width)
    # A vector for the end of a row, three marks around an image, and a norm before and after.
    marks = 4 * width + 3 * outputs + width + outputs
    return (
        Tower(
            name="visual",
            depth=vision.layers("num_hidden_layers"),
            layers="layers",
            block=biased_block(
                width,
                vision.integer("intermediate_size"),
                ("self_attn.qkv", "self_attn.o_proj"),
                ("mlp.dense_h_to_4h", "mlp.dense_4h_to_h"),
            ),
            block_elements=2 * NORM * width,
            frame=(),
            frame_elements=(channels * patch * patch + 1 + positions) * width
            + convolutions
            + linear_elements(4 * width, outputs)
            + marks,
        ),
    )
