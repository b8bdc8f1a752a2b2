"""The vision encoder of Kimi, MoonViT."""

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from typing import Any, Final

from service.architecture.config import Config
from service.architecture.encoders.media import IMAGE_CHANNELS
from service.architecture.encoders.tower import (
    Projection,
    Split,
    Tower,
    biased_block,
    feed_forward_projections,
)

PROJECTOR: Final = "mm_projector.linear"
KIMI_K3_VISION: Final[Mapping[str, Any]] = {
    "vt_num_hidden_layers": 27,
    "vt_hidden_size": 1024,
    "vt_num_attention_heads": 12,
    "vt_intermediate_size": 4096,
    "qkv_hidden_size": 1536,
    "text_hidden_size": 2304,
}
"""vLLM 0.33.0, transformers_utils/configs/kimi_k3.py KimiK3VisionConfig."""


def moonvit(config: Config) -> tuple[Tower, ...]:
    """Read the tower and projector of Kimi VL, which are never quantized (vLLM 0.24.0, kimi_vl.py)."""
    return tuple(replace(tower, quantizable=False) for tower in kimi_k25(config))


def kimi_k25(config: Config) -> tuple[Tower, ...]:
    """Read the tower and projector of Kimi K2.5; the projector is made of the model's type once it is built.

    Source: vLLM 0.19.0 to 0.33.0, MoonViT3dPretrainedModel and KimiK25ForConditionalGeneration.
    """
    vision = config.section("vision_config")
    if vision is None:
        return ()
    text = config.section("text_config") or config
    width, inner = vision.integer("vt_hidden_size"), vision.integer("vt_intermediate_size")
    merged = width * _merged_patches(vision)
    hidden = vision.integer("text_hidden_size", default=text.integer("hidden_size"))
    return (
        Tower(
            name="vision_tower",
            depth=vision.layers("vt_num_hidden_layers"),
            layers="encoder.blocks",
            block=biased_block(width, inner, ("wqkv", "wo"), ("mlp.fc0", "mlp.fc1")),
            block_elements=4 * width,
            frame=(
                Projection(f"{PROJECTOR}_1", merged, (merged,), Split.REPLICATED, bias=True, cast=True),
                Projection(f"{PROJECTOR}_2", merged, (hidden,), Split.REPLICATED, bias=True, cast=True),
            ),
            frame_elements=(_moon_patch(vision) + 1 + _moon_positions(vision) + 2 + 2) * width,
        ),
    )


def kimi_k3(config: Config) -> tuple[Tower, ...]:
    """Read the tower and projector of Kimi K3: norms and projections may lack biases, and heads are wider.

    The projector is made of the model's type once it is built, as that of K2.5 is.

    Source: vLLM 0.33.0, MoonViT3dPretrainedModel and KimiK25MultiModalProjector (``patchmergerv2``);
    is_vit_use_data_parallel (since 0.27.0): heads that ranks do not divide are not split.
    """
    specified = config.section("vision_config") or Config({}, config.at("vision_config"))
    vision = replace(specified, fields={**KIMI_K3_VISION, **specified.fields})
    width, inner = vision.integer("vt_hidden_size"), vision.integer("vt_intermediate_size")
    heads, merged = vision.integer("qkv_hidden_size"), width * _merged_patches(vision)
    hidden = vision.integer("text_hidden_size")
    own = vision.boolean("attn_bias")
    norm = 1 if vision.text("norm_type", default="rmsnorm") == "rmsnorm" else 2
    bias = vision.boolean("patch_embed_proj_bias")
    networks = feed_forward_projections(
        ("mlp.fc0", "mlp.fc1"), width, inner, gated=False, bias=vision.boolean("linear_bias")
    )
    return (
        Tower(
            name="vision_tower",
            depth=vision.layers("vt_num_hidden_layers"),
            layers="encoder.blocks",
            block=(
                Projection("wqkv", width, (heads, heads, heads), Split.COLUMN, own),
                Projection("wo", heads, (width,), Split.ROW, own),
                *networks,
            ),
            block_elements=2 * norm * width,
            frame=(
                Projection(f"{PROJECTOR}_1", merged, (merged,), Split.REPLICATED, cast=True),
                Projection(f"{PROJECTOR}_2", merged, (hidden,), Split.REPLICATED, cast=True),
            ),
            frame_elements=(_moon_patch(vision) + bias + _moon_positions(vision) + norm) * width + hidden,
            heads=vision.count("vt_num_attention_heads"),
        ),
    )


def _merged_patches(vision: Config) -> int:
    return max(1, prod(vision.counts("merge_kernel_size")[:2] or (2, 2)))


def _moon_positions(vision: Config) -> int:
    sides = ("init_pos_emb_height", "init_pos_emb_width")
    return prod(vision.integer(side, default=64) for side in sides)


def _moon_patch(vision: Config) -> int:
    return IMAGE_CHANNELS * vision.integer("patch_size", default=14) ** 2
