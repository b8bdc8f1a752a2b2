"""Known encoders of images before projectors of other classes, most of which every rank has in full."""

from dataclasses import replace
from typing import Any, Final

from service.architecture.config import Config
from service.architecture.encoders.intern_vit import intern_vl_chat
from service.architecture.encoders.media import patch_elements
from service.architecture.encoders.merged_patches import qwen2_5_vl
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
    biased_block,
    feed_forward_projections,
)

WIDENED: Final = 4
"""Bee's projector is as many times as wide as the decoder: vLLM 0.33.0, BeeMultiModalProjector."""
NVLM_DUMMY_HEADS: Final = 7
"""vLLM 0.20.2 and 0.33.0, nvlm_d.py: heads of zeros, so that tensor parallelism divides 25 heads."""
ONEVISION: Final[dict[str, Any]] = {
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_hidden_layers": 24,
    "patch_size": 14,
    "temporal_patch_size": 1,
}
"""The vision part of LLaVA-OneVision 2."""
NO_WINDOW: Final = -1


def bee(config: Config) -> tuple[Tower, ...]:
    """Read the tower of Bee (vLLM 0.20.2 and 0.33.0, bee.py)."""
    return _of_siglip(config, WIDENED * text_width(config))


def r_vl(config: Config) -> tuple[Tower, ...]:
    """Read the tower of R-4B (vLLM 0.20.2 and 0.33.0, rvl.py)."""
    return _of_siglip(config, text_width(config))


def _of_siglip(config: Config, between: int) -> tuple[Tower, ...]:
    """Return SigLIP without its last norm, a projector after a norm, and the vector that ends a row."""
    vision = vision_part(config, SIGLIP)
    width, hidden = vision.integer("hidden_size"), text_width(config)
    projector = NORM * width + linear_elements(width, between) + linear_elements(between, hidden)
    chosen = config.fields.get("vision_feature_layer", -1)
    layers = vision.layers("num_hidden_layers")
    index = chosen if isinstance(chosen, int) and not isinstance(chosen, bool) else -1
    depth = max(0, min(layers, layers + 1 + index if index < 0 else index))
    return (siglip_tower("vision_tower.vision_model", vision, depth=depth, extra=projector + hidden),)


def eagle2_5(config: Config) -> tuple[Tower, ...]:
    """Read the tower of Eagle 2.5 (vLLM 0.20.2 and 0.33.0, eagle2_5_vl.py)."""
    vision = vision_part(config, SIGLIP)
    width, hidden = vision.integer("hidden_size"), text_width(config)
    merged = width * round(1 / max(config.number("downsample_ratio", 0.5), 0.01)) ** 2
    projector = NORM * merged + linear_elements(merged, hidden) + linear_elements(hidden, hidden)
    return (siglip_tower("vision_model.vision_model", vision, extra=NORM * width + projector),)


def skywork_r1v(config: Config) -> tuple[Tower, ...] | None:
    """Read the tower of Skywork R1V: InternVL's, with a projector that is quantized as the rest.

    Source: vLLM 0.20.2 and 0.33.0, skyworkr1v.py _init_mlp1.
    """
    towers, hidden = intern_vl_chat(config), text_width(config)
    if towers is None:
        return None
    merged = _merged_width(config)
    frame = (
        Projection("mlp1.1", merged, (hidden,), Split.REPLICATED, bias=True),
        Projection("mlp1.3", hidden, (hidden,), Split.REPLICATED, bias=True),
    )
    former = linear_elements(merged, hidden) + linear_elements(hidden, hidden)
    return tuple(
        replace(tower, frame=frame, frame_elements=tower.frame_elements - former) for tower in towers
    )


def _merged_width(config: Config) -> int:
    """Return the width of the patches that InternVL merges into one."""
    width = vision_part(config, {}).integer("hidden_size")
    return width * int(1 / max(config.number("downsample_ratio", 0.5), 0.01)) ** 2


def nvlm(config: Config) -> tuple[Tower, ...]:
    """Read the tower of NVLM-D: InternViT with heads of zeros (vLLM 0.20.2 and 0.33.0, nvlm_d.py)."""
    text = config.section("text_config") or config.section("llm_config") or config
    hidden, inner = text_width(config), text.integer("intermediate_size")
    towers = []
    for tower in intern_vl_chat(config) or ():
        vision = vision_part(config, {})
        width, heads = vision.integer("hidden_size"), vision.count("num_attention_heads")
        padded = (heads + NVLM_DUMMY_HEADS) * (width // heads)
        attention = (
            Projection("attn.qkv", width, (padded,) * 3, Split.COLUMN, vision.boolean("qkv_bias")),
            Projection("attn.proj", padded, (width,), Split.ROW, bias=True),
        )
        merged = _merged_width(config)
        # InternVL's projector has two layers of the decoder's width, with biases; this one has none.
        former = linear_elements(merged, hidden) + linear_elements(hidden, hidden)
        projector = merged * inner + inner * hidden
        block = *(replace(each, heads=heads + NVLM_DUMMY_HEADS) for each in attention), *tower.block[2:]
        frame_elements = tower.frame_elements - former + projector
        towers.append(replace(tower, block=block, frame_elements=frame_elements))
    return tuple(towers)


def hyperclova_vision(config: Config) -> tuple[Tower, ...]:
    """Read the tower of HyperCLOVA X SEED Think: Qwen2.5-VL's, then a projection.

    Source: vLLM 0.20.2 and 0.33.0, hyperclovax_vision_v2.py.
    """
    vision = vision_part(config, {})
    outputs = vision.integer("out_hidden_size", default=text_width(config))
    projection = linear_elements(outputs, text_width(config))
    return tuple(
        replace(tower, frame_elements=tower.frame_elements + projection) for tower in qwen2_5_vl(config)
    )


def mimo_v2_omni(config: Config) -> tuple[Tower, ...] | None:
    """Read the tower of images of MiMo-V2-Omni; ``None`` with an encoder of sound, which is not modelled.

    Source: vLLM 0.33.0, mimo_v2_omni.py MiMoVisionTransformer.
    """
    vision = config.section("vision_config")
    if vision is None or "audio_config" in config:
        return None if "audio_config" in config else ()
    width, inner = vision.integer("hidden_size"), vision.integer("intermediate_size")
    heads = vision.count("num_heads")
    size = vision.integer("qk_channels", default=64)
    queries, keys = heads * size, vision.count("num_key_value_heads", default=heads) * size
    merged = width * vision.count("spatial_merge_size", default=2) ** 2
    depth = vision.layers("depth")
    windows = vision.fields.get("vit_window_attn_types")
    sinks = sum(each != NO_WINDOW for each in windows[:depth]) if isinstance(windows, list) else 0
    return (
        Tower(
            name="visual",
            depth=depth,
            layers="blocks",
            block=(
                Projection("attn.qkv", width, (queries, keys, keys), Split.COLUMN, bias=True),
                Projection("attn.proj", queries, (width,), Split.ROW, bias=True),
                *feed_forward_projections(
                    ("mlp.gate_up_proj", "mlp.down_proj"), width, inner, gated=True, bias=True
                ),
            ),
            block_elements=2 * width,
            frame=(
                Projection("visual.merger.mlp.0", merged, (merged,), Split.COLUMN),
                Projection("visual.merger.mlp.2", merged, (vision.integer("out_hidden_size"),), Split.ROW),
            ),
            frame_elements=(patch_elements(vision) + 1) * width
            + (sinks * heads if vision.boolean("use_sink") else 0),
            quantizable=False,
        ),
    )


def llava_onevision2(config: Config) -> tuple[Tower, ...]:
    """Read the tower of LLaVA-OneVision 2 (vLLM 0.33.0, llava_onevision2.py)."""
    vision = vision_part(config, ONEVISION)
    width, inner = vision.integer("hidden_size"), vision.integer("intermediate_size")
    merged = width * vision.count("spatial_merge_size", default=2) ** 2
    outputs = text_width(config)
    return (
        Tower(
            name="visual",
            depth=vision.layers("num_hidden_layers"),
            layers="encoder.layers",
            block=biased_block(width, inner, ("self_attn.qkv", "self_attn.proj")),
            block_elements=2 * NORM * width,
            frame=(
                Projection("visual.merger.mlp.0", merged, (merged,), Split.COLUMN, bias=True),
                Projection("visual.merger.mlp.2", merged, (outputs,), Split.ROW, bias=True),
            ),
            frame_elements=(patch_elements(vision) + 2 * NORM) * width,
            quantizable=False,
        ),
    )
