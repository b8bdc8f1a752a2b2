"""InternViT under a projector of two matrices, as InternVL's own configs describe it.

Source: vLLM 0.20.2 to 0.33.0, intern_vit.py InternVisionModel and internvl.py InternVLChatModel.
"""

from dataclasses import replace
from typing import Final

from service.architecture.config import Config
from service.architecture.encoders.media import IMAGE_CHANNELS
from service.architecture.encoders.tower import Projection, Split, Tower, attention_projections

NORM: Final = 2
"""Vectors of a layer norm: weight and bias."""
LAYER_SCALES: Final = 2
LEAST_RATIO: Final = 0.01


def intern_vl_chat(config: Config) -> tuple[Tower, ...] | None:
    """Read the tower of InternVL; ``None`` for one without an encoder of its own (Mono-InternVL)."""
    vision = config.section("vision_config") or Config({}, config.at("vision_config"))
    if "hidden_size" not in vision:
        return None
    width, patch = vision.integer("hidden_size"), _side(vision, "patch_size", 14)
    positions = (_side(vision, "image_size", 448) // patch) ** 2 + 1
    norm = 1 if vision.text("norm_type") == "rms_norm" else NORM
    return (
        Tower(
            name="vision_model",
            depth=_depth(config, vision),
            layers="encoder.layers",
            block=_block(vision, width),
            block_elements=(LAYER_SCALES + 2 * norm + (2 if vision.boolean("qk_normalization") else 0))
            * width,
            frame=(),
            frame_elements=(1 + positions + IMAGE_CHANNELS * patch * patch + 1) * width
            + _projector(config, width),
        ),
    )


def _side(vision: Config, name: str, default: int) -> int:
    """Return the side of a square, which some configs give as height and width."""
    sides = vision.counts(name) if isinstance(vision.fields.get(name), list) else ()
    return max(1, sides[0]) if sides else vision.integer(name, default=default)


def _depth(config: Config, vision: Config) -> int:
    """Return the layers that the engine builds: those up to the one whose features are used."""
    depth, selected = vision.layers("num_hidden_layers"), config.fields.get("select_layer", -1)
    if isinstance(selected, bool) or not isinstance(selected, int):
        return depth
    return max(0, min(depth, depth + selected + 1 if selected < 0 else selected + 1))


def _block(vision: Config, width: int) -> tuple[Projection, ...]:
    """Return one layer's projections; ranks that do not divide its heads have its attention in full."""
    heads, inner = vision.count("num_attention_heads"), vision.integer("intermediate_size")
    attention = attention_projections(
        ("attn.qkv", "attn.proj"), width, bias=vision.boolean("qkv_bias"), output_bias=True
    )
    return (
        *(replace(each, heads=heads) for each in attention),
        Projection("mlp.fc1", width, (inner,), Split.COLUMN, bias=True),
        Projection("mlp.fc2", inner, (width,), Split.ROW, bias=True),
    )


def _projector(config: Config, width: int) -> int:
    """Return the elements of the projector, which every rank has in full and nothing quantizes."""
    text = next((part for name in ("text_config", "llm_config") if (part := config.section(name))), config)
    hidden = text.integer("hidden_size", default=4096)
    merged = width * int(1 / max(config.number("downsample_ratio", 0.5), LEAST_RATIO)) ** 2
    return NORM * merged + (merged + 1) * hidden + (hidden + 1) * hidden
