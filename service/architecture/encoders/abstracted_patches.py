"""Kanana-V: Qwen2-VL's encoder, and blocks of convolutions that shorten what it finds."""

from dataclasses import replace
from typing import Final

from service.architecture.config import MAX_LAYERS, Config
from service.architecture.encoders.merged_patches import qwen2_vl
from service.architecture.encoders.siglip import NORM, linear_elements, part
from service.architecture.encoders.tower import Tower

SQUEEZED: Final = 4
"""timm 1.0, RegStage: channels that a block squeezes its inputs to, as a part of them (``se_ratio``)."""
KERNEL: Final = 3 * 3
"""The same: elements of the kernel of its convolution in depth."""


def kanana_v(config: Config) -> tuple[Tower, ...]:
    """Read the tower of Kanana-V, which nothing quantizes.

    Source: vLLM 0.20.2 and 0.33.0, kanana_v.py CustomQwen2VLVE (without a merger) and DynamicCAbstractor.
    """
    projector = part(config, "projector_config")
    return tuple(
        replace(
            tower,
            name="vision_model",
            frame=(),
            # Qwen2-VL's merger, which is dropped, has a norm.
            frame_elements=tower.frame_elements - 2 * tower_width(config) + _abstractor(projector),
            quantizable=False,
        )
        for tower in qwen2_vl(config)
    )


def tower_width(config: Config) -> int:
    """Return the width of the encoder (transformers 5.19, Qwen2VLVisionConfig)."""
    return part(config, "vision_config", {"embed_dim": 1280}).integer("embed_dim")


def _abstractor(projector: Config) -> int:
    """Return the elements of both stages of convolutions, of learned positions and of the last network."""
    depth = projector.integer("depth", minimum=0, maximum=MAX_LAYERS)
    inputs, width = projector.integer("encoder_hidden_size"), projector.integer("hidden_size")
    outputs = projector.integer("output_hidden_size")
    merged = width * projector.count("merge_size") ** 2
    stages = _stage(depth, inputs, width) + _stage(depth, merged, width) if depth else 0
    positions = projector.integer("pos_emb_size", default=0, minimum=0) * inputs
    first = linear_elements(width if depth else inputs, outputs)
    later = (projector.count("mlp_depth", default=1) - 1) * linear_elements(outputs, outputs)
    return stages + positions * projector.boolean("pos_emb", default=True) + first + later


def _stage(depth: int, inputs: int, width: int) -> int:
    """Return the elements of a stage: its first block has the inputs' channels, the others its own."""
    shortcut = inputs * width + NORM * width if inputs != width else 0
    return _block(inputs, width) + shortcut + (depth - 1) * _block(width, width)


def _block(inputs: int, width: int) -> int:
    squeezed = round(inputs / SQUEEZED)
    excitation = linear_elements(width, squeezed) + linear_elements(squeezed, width)
    return (inputs + KERNEL + width + 3 * NORM) * width + excitation
