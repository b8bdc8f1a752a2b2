"""CLIP's and SigLIP's encoders, whose layers are alike, and what encoders built on them share."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from service.architecture.config import Config
from service.architecture.encoders.media import IMAGE_CHANNELS
from service.architecture.encoders.tower import Projection, Tower, biased_block, siglip_block

CLIP: Final[Mapping[str, Any]] = {
    "hidden_size": 768,
    "intermediate_size": 3072,
    "num_hidden_layers": 12,
    "patch_size": 32,
    "image_size": 224,
}
"""transformers 5.16, CLIPVisionConfig."""
SIGLIP: Final[Mapping[str, Any]] = {**CLIP, "patch_size": 16}
"""transformers 5.16, SiglipVisionConfig."""
SIGLIP2: Final[Mapping[str, Any]] = {**SIGLIP, "num_patches": 256}
"""transformers 5.16, Siglip2VisionConfig."""
ALWAYS_QUANTIZED: Final = frozenset({"clip_vision_model", "siglip2_vision_model"})
"""Kinds of encoders whose feed-forward networks are quantized whatever their sizes."""
NORM: Final = 2
"""Vectors of a layer norm: weight and bias."""
DEFAULT_HIDDEN: Final = 4096
TEXT_SECTIONS: Final = ("text_config", "llm_config", "language_config")
"""What configs call the section of the decoder."""


def part(config: Config, name: str, defaults: Mapping[str, Any] | None = None) -> Config:
    """Return a section of a config, an empty one where it is missing, with defaults for its fields."""
    specified = config.section(name) or Config({}, config.at(name))
    return Config({**(defaults or {}), **specified.fields}, specified.pointer)


def vision_part(config: Config, defaults: Mapping[str, Any]) -> Config:
    """Return the section of the encoder of images, with defaults for its fields."""
    return part(config, "vision_config", defaults)


def text_width(config: Config, *, default: int = DEFAULT_HIDDEN) -> int:
    """Return the decoder's width, which some configs state outside any section."""
    sections = (config.section(name) for name in TEXT_SECTIONS)
    text = next((section for section in sections if section is not None), config)
    return text.integer("hidden_size", default=default)


def siglip_tower(
    name: str, vision: Config, frame: tuple[Projection, ...] = (), *, depth: int | None = None, extra: int = 0
) -> Tower:
    """Return a tower; ``extra``: elements beside its layers, patches and positions."""
    width, patch = vision.integer("hidden_size"), vision.integer("patch_size")
    channels = vision.count("num_channels", default=IMAGE_CHANNELS)
    block = biased_block if vision.text("model_type") in ALWAYS_QUANTIZED else siglip_block
    return Tower(
        name=name,
        depth=vision.layers("num_hidden_layers") if depth is None else depth,
        layers="encoder.layers",
        block=block(width, vision.integer("intermediate_size")),
        block_elements=2 * NORM * width,
        frame=frame,
        frame_elements=(channels * patch * patch + 1) * width + extra,
        position_elements=learned_positions(vision) * width,
    )


def learned_positions(vision: Config) -> int:
    """Return how many positions an encoder has learned: one for each patch of the largest image."""
    fixed = vision.optional_integer("num_patches")
    return fixed or (vision.integer("image_size") // vision.integer("patch_size")) ** 2


def linear_elements(inputs: int, outputs: int, *, bias: bool = True) -> int:
    """Return the elements of a projection that every rank has in full and nothing quantizes."""
    return (inputs + bias) * outputs


def sides(config: Config, name: str, *, default: int | None = None) -> tuple[int, int]:
    """Return a height and a width, which some configs state as one number."""
    stated = config.counts(name) if isinstance(config.fields.get(name), list) else ()
    if len(stated) > 1:
        return max(1, stated[0]), max(1, stated[1])
    side = max(1, config.integer(name, default=default))
    return side, side


def clip_images(config: Config) -> tuple[Tower, ...]:
    """Read CLIP's encoder of images and the projection after it (vLLM 0.20.2 and 0.33.0, clip.py)."""
    vision = vision_part(config, {**CLIP, "model_type": "clip_vision_model"})
    width = vision.integer("hidden_size")
    outputs = config.integer("projection_dim", default=512)
    # A norm before the layers and one after them, a vector for the class of an image, and whole positions.
    extra = (2 * NORM + 1 + learned_positions(vision) + outputs) * width
    return (replace(siglip_tower("vision_model", vision, extra=extra), position_elements=0),)


def siglip_images(config: Config) -> tuple[Tower, ...]:
    """Read SigLIP's encoder of images and its pooling head (vLLM 0.20.2 and 0.33.0, siglip.py)."""
    vision = vision_part(config, SIGLIP)
    width, inner = vision.integer("hidden_size"), vision.integer("intermediate_size")
    if not vision.boolean("vision_use_head", default=True):
        return (siglip_tower("vision_model", vision, extra=NORM * width),)
    network = tuple(
        replace(each, name=f"vision_model.head.{each.name}")
        for each in siglip_block(width, inner)
        if each.name.startswith("mlp.")
    )
    attention = 4 * linear_elements(width, width)
    return (siglip_tower("vision_model", vision, network, extra=attention + (1 + 2 * NORM) * width),)
