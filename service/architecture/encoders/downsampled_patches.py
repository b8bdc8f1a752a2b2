"""The encoders of GLM-V, whose patches a convolution joins, and of EXAONE 4.5."""

from collections.abc import Mapping
from typing import Any, Final

from service.architecture.config import Config
from service.architecture.encoders.media import patch_elements
from service.architecture.encoders.tower import (
    Projection,
    Split,
    Tower,
    attention_projections,
    feed_forward_projections,
)

GLM4V: Final[Mapping[str, Any]] = {
    "depth": 24,
    "hidden_size": 1536,
    "image_size": 336,
    "patch_size": 14,
    "out_hidden_size": 4096,
    "intermediate_size": 13_696,
    "num_heads": 12,
}
"""transformers 5.16, Glm4vVisionConfig."""
GLM_OCR: Final[Mapping[str, Any]] = {
    **GLM4V,
    "hidden_size": 1024,
    "out_hidden_size": 1536,
    "intermediate_size": 4096,
    "num_heads": 16,
    "attention_bias": True,
}
"""transformers 5.16, GlmOcrVisionConfig."""


def _vision(config: Config, defaults: Mapping[str, Any]) -> Config:
    specified = config.section("vision_config") or Config({}, config.at("vision_config"))
    return Config({**defaults, **specified.fields}, specified.pointer)


def _merger(outputs: int, inner: int) -> tuple[Projection, ...]:
    names = "visual.merger"
    return (
        Projection(f"{names}.proj", outputs, (outputs,), Split.COLUMN),
        Projection(f"{names}.gate_up_proj", outputs, (inner, inner), Split.COLUMN),
        Projection(f"{names}.down_proj", inner, (outputs,), Split.ROW),
    )


def _tower(
    vision: Config, block: tuple[Projection, ...], merger: tuple[Projection, ...], norms: int, extra: int
) -> Tower:
    """Return a tower whose last patches are joined, square by square, to the decoder's width."""
    width, outputs = vision.integer("hidden_size"), vision.integer("out_hidden_size")
    joined = width * vision.count("spatial_merge_size", default=2) ** 2
    return Tower(
        name="visual",
        depth=vision.layers("depth"),
        layers="blocks",
        block=block,
        block_elements=2 * width + norms,
        frame=merger,
        frame_elements=(patch_elements(vision) + 1 + 1) * width + (joined + 1 + 2) * outputs + extra,
    )


def glm4v(config: Config) -> tuple[Tower, ...]:
    """Read the tower of GLM-4.1V and GLM-4.5V (vLLM 0.33.0, Glm4vVisionTransformer)."""
    vision = _vision(config, GLM4V)
    width, outputs = vision.integer("hidden_size"), vision.integer("out_hidden_size")
    bias = vision.boolean("attention_bias")
    block = (
        *attention_projections(("attn.qkv", "attn.proj"), width, bias=bias, output_bias=bias),
        *feed_forward_projections(
            ("mlp.gate_up_proj", "mlp.down_proj"), width, outputs, gated=True, bias=False
        ),
    )
    positions = (vision.integer("image_size") // vision.integer("patch_size")) ** 2
    merger = _merger(outputs, vision.integer("intermediate_size"))
    # Learned positions, and a norm after the convolution of patches.
    return (_tower(vision, block, merger, 0, (positions + 1) * width),)


def glm_ocr(config: Config) -> tuple[Tower, ...]:
    """Read the tower of GLM-OCR (vLLM 0.33.0, GlmOcrVisionTransformer)."""
    vision = _vision(config, GLM_OCR)
    width, bias = vision.integer("hidden_size"), vision.boolean("attention_bias")
    block = (
        *attention_projections(("attn.qkv", "attn.proj"), width, bias=bias, output_bias=bias),
        *feed_forward_projections(
            ("mlp.gate_up_proj", "mlp.down_proj"),
            width,
            vision.integer("intermediate_size"),
            gated=True,
            bias=bias,
        ),
    )
    text = config.section("text_config") or config
    merger = _merger(vision.integer("out_hidden_size"), text.integer("intermediate_size", default=4608))
    return (_tower(vision, block, merger, 2 * (width // vision.count("num_heads")), 0),)


def exaone4_5(config: Config) -> tuple[Tower, ...]:
    """Read the tower of EXAONE 4.5 (vLLM 0.33.0, Exaone4_5_VisionTransformer)."""
    vision = config.section("vision_config")
    if vision is None:
        return ()
    width, heads = vision.integer("hidden_size"), vision.count("num_heads", default=16)
    keys = vision.count("num_key_value_heads", default=heads) * (width // heads)
    merged = width * vision.count("spatial_merge_size", default=2) ** 2
    outputs = vision.integer("out_hidden_size", default=width)
    return (
        Tower(
            name="visual",
            depth=vision.layers("depth"),
            layers="blocks",
            block=(
                Projection("attn.qkv", width, (width, keys, keys), Split.COLUMN, bias=True),
                Projection("attn.proj", width, (width,), Split.ROW, bias=True),
                *feed_forward_projections(
                    ("mlp.gate_up_proj", "mlp.down_proj"),
                    width,
                    vision.integer("intermediate_size"),
                    gated=True,
                    bias=True,
                ),
            ),
            block_elements=2 * width,
            frame=(
                Projection("visual.merger.mlp.0", merged, (merged,), Split.COLUMN, bias=True),
                Projection("visual.merger.mlp.2", merged, (outputs,), Split.ROW, bias=True),
            ),
            frame_elements=(patch_elements(vision) + 1) * width,
        ),
    )
