"""Encoders after which convolutions join patches: GLM-4V and Step-VL."""

from typing import Any, Final

from service.architecture.config import Config
from service.architecture.encoders.media import IMAGE_CHANNELS
from service.architecture.encoders.siglip import NORM, part, text_width, vision_part
from service.architecture.encoders.tower import (
    Projection,
    Split,
    Tower,
    biased_block,
)

PERCEPTION: Final[dict[str, Any]] = {
    "width": 1536,
    "layers": 47,
    "heads": 16,
    "image_size": 728,
    "patch_size": 14,
}
"""vLLM 0.33.0, transformers_utils/configs/step5.py: the perception encoder's config class."""
PERCEPTION_RATIO: Final = 8960 / 1536
"""The same, mlp_ratio."""
JOINED: Final = 2
"""Patches of a side that one convolution joins."""
KERNEL: Final = 3


def glm4v(config: Config) -> tuple[Tower, ...]:
    """Read the tower of GLM-4V, EVA's (vLLM 0.20.2 and 0.33.0, glm4v.py EVA2CLIPModel)."""
    vision = vision_part(config, {})
    width, inner, patch = (
        vision.integer("hidden_size"),
        vision.integer("intermediate_size"),
        vision.integer("patch_size"),
    )
    hidden, wide = (
        config.integer("hidden_size"),
        config.integer("ffn_hidden_size", "intermediate_size", default=1),
    )
    channels = vision.count("in_channels", default=IMAGE_CHANNELS)
    names = "transformer.vision.linear_proj"
    return (
        Tower(
            name="transformer.vision",
            depth=vision.layers("num_hidden_layers"),
            layers="transformer.layers",
            block=biased_block(width, inner, ("attention.query_key_value", "attention.dense")),
            block_elements=2 * NORM * width,
            frame=(
                Projection(f"{names}.linear_proj", hidden, (hidden,), Split.REPLICATED),
                Projection(f"{names}.merged_proj", hidden, (wide, wide), Split.COLUMN),
                Projection(f"{names}.dense_4h_to_h", wide, (hidden,), Split.ROW),
            ),
            # A class embedding, positions and patches; two marks, the convolution and a norm after it.
            frame_elements=(1 + vision.integer("num_positions") + channels * patch * patch + 1) * width
            + (2 + width * JOINED**2 + 1 + NORM) * hidden,
        ),
    )


def step_vl(config: Config) -> tuple[Tower, ...]:
    """Read the tower of Step3-VL-10B and Step 3.7 (vLLM 0.20.2 and 0.33.0, step_vl.py PerceptionEncoder)."""
    vision = part(config, "vision_config", PERCEPTION)
    width, patch = vision.integer("width"), vision.integer("patch_size")
    inner = max(1, int(width * vision.number("mlp_ratio", PERCEPTION_RATIO)))
    first_class = vision.boolean("use_cls_token")
    scales = 0 if vision.fields.get("ls_init_value", 0.1) is None else 2
    positions = (vision.integer("image_size") // patch) ** 2 + first_class
    norms = vision.boolean("use_ln_pre", default=True) + vision.boolean("use_ln_post")
    learned = vision.boolean("use_abs_posemb", default=True) * positions
    frame_elements = (IMAGE_CHANNELS * patch * patch + first_class + learned + NORM * norms) * width
    widened = width * 2
    convolutions = (width * KERNEL**2 + 1) * widened + (widened * KERNEL**2 + 1) * 2 * widened
    bias = config.boolean("projector_bias")
    return (
        Tower(
            name="vision_model",
            depth=vision.layers("layers"),
            layers="transformer.resblocks",
            block=biased_block(width, inner, ("attn.qkv_proj", "attn.out_proj")),
            block_elements=(scales + 2 * NORM) * width,
            frame=(
                Projection("vit_large_projector", 2 * widened, (text_width(config),), Split.COLUMN, bias),
            ),
            frame_elements=frame_elements + convolutions,
        ),
    )
