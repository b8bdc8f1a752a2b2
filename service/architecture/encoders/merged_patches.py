"""Vision encoders that merge squares of patches by two projections: Qwen-VL and variants."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from service.architecture.config import Config
from service.architecture.encoders import audio
from service.architecture.encoders.media import (
    QWEN3_VIDEO_TOKENS,
    patch_elements,
    patched_media,
)
from service.architecture.encoders.tower import (
    Projection,
    Split,
    Tower,
    attention_projections,
    biased_block,
    feed_forward_projections,
)

QWEN2_VISION: Final[Mapping[str, Any]] = {"depth": 32, "embed_dim": 1280, "hidden_size": 3584}
"""transformers 4.57 and 5.19, Qwen2VLVisionConfig."""
QWEN2_RATIO: Final = 4.0
"""transformers, Qwen2VLVisionConfig.mlp_ratio."""


def _merger(name: str, first: str, second: str, merged: int, outputs: int) -> tuple[Projection, ...]:
    return (
        Projection(f"{name}.{first}", merged, (merged,), Split.COLUMN, bias=True),
        Projection(f"{name}.{second}", merged, (outputs,), Split.ROW, bias=True),
    )


def qwen2_vl(config: Config) -> tuple[Tower, ...]:
    """Read the tower of Qwen2-VL (vLLM 0.24.0, Qwen2VisionTransformer)."""
    specified = config.section("vision_config")
    if specified is None:
        return ()
    vision = Config({**QWEN2_VISION, **specified.fields}, specified.pointer)
    width = vision.integer("embed_dim")
    merged = width * vision.count("spatial_merge_size", default=2) ** 2
    inner = max(1, int(width * vision.number("mlp_ratio", QWEN2_RATIO)))
    return (
        Tower(
            name="visual",
            depth=vision.layers("depth"),
            layers="blocks",
            block=biased_block(width, inner, ("attn.qkv", "attn.proj")),
            block_elements=4 * width,
            frame=_merger("visual.merger", "mlp.0", "mlp.2", merged, vision.integer("hidden_size")),
            frame_elements=patch_elements(vision) * width + 2 * width,
            media=patched_media(vision, width, vision.integer("hidden_size")),
        ),
    )


def qwen2_5_vl(config: Config) -> tuple[Tower, ...]:
    """Read the tower of Qwen2.5-VL (vLLM 0.24.0, Qwen2_5_VisionTransformer)."""
    vision = config.section("vision_config")
    if vision is None:
        return ()
    width = vision.integer("hidden_size")
    inner = vision.integer("intermediate_size")
    merged = width * vision.count("spatial_merge_size", default=2) ** 2
    return (
        Tower(
            name="visual",
            depth=vision.layers("depth"),
            layers="blocks",
            block=(
                *attention_projections(("attn.qkv", "attn.proj"), width, bias=True, output_bias=True),
                *feed_forward_projections(
                    ("mlp.gate_up_proj", "mlp.down_proj"), width, inner, gated=True, bias=True
                ),
            ),
            block_elements=2 * width,
            frame=_merger("visual.merger", "mlp.0", "mlp.2", merged, vision.integer("out_hidden_size")),
            frame_elements=patch_elements(vision) * width + width,
            media=patched_media(vision, width, vision.integer("out_hidden_size")),
        ),
    )


SELECTED_LAYERS: Final = 2
"""vLLM 0.33.0, OpenPanguVisionTransformer.select_layer of a config without mm_unit_vision_select_layer."""


def openpangu_vl(config: Config) -> tuple[Tower, ...]:
    """Read the tower of OpenPangu-VL: Qwen2.5-VL's, which merges the patches of several layers.

    Source: vLLM 0.33.0, OpenPanguVisionTransformer.
    """
    vision = config.section("vision_config")
    if vision is None:
        return ()
    width, outputs = vision.integer("hidden_size"), vision.integer("out_hidden_size")
    merged = width * vision.count("spatial_merge_size", default=2) ** 2
    selected = len(vision.fields.get("mm_unit_vision_select_layer") or range(SELECTED_LAYERS))
    mergers = (
        projection
        for index in range(selected)
        for projection in _merger(f"visual.merger.{index}", "mlp.0", "mlp.2", merged, outputs)
    )
    hidden = config.integer("hidden_size")
    gated = vision.text("hidden_act") == "silu"
    names = ("mlp.gate_up_proj" if gated else "mlp.up_proj", "mlp.down_proj")
    return tuple(
        replace(
            tower,
            block=(
                *attention_projections(("attn.qkv", "attn.proj"), width, bias=True, output_bias=True),
                *feed_forward_projections(
                    names, width, vision.integer("intermediate_size"), gated=gated, bias=True
                ),
            ),
            frame=tuple(mergers),
            frame_elements=(patch_elements(vision) + 1 + selected) * width + (outputs + 1) * hidden,
            media=None,
        )
        for tower in qwen2_5_vl(config)
    )


def qwen2_5_omni(config: Config) -> tuple[Tower, ...]:
    """Read both encoders of Qwen2.5-Omni's thinker (vLLM 0.33.0, qwen2_5_omni_thinker.py)."""
    thinker = config.section("thinker_config") or config
    sound = thinker.section("audio_config")
    towers = qwen2_5_vl(thinker)
    return towers if sound is None else (*towers, audio.qwen2_5_omni(sound))


DEEP_TYPES: Final = frozenset({"qwen3_vl", "qwen3_vl_moe"})
DEEP_MERGERS: Final = 3
"""transformers 5.10 and 5.19, Qwen3VLVisionConfig.deepstack_visual_indexes: 8, 16, 24."""


def qwen3_vl(config: Config) -> tuple[Tower, ...]:
    """Read the tower of Qwen3-VL and Qwen3.5 (vLLM 0.24.0, Qwen3_VisionTransformer)."""
    vision = config.section("vision_config")
    if vision is None:
        return ()
    width = vision.integer("hidden_size")
    inner = vision.integer("intermediate_size")
    merged = width * vision.count("spatial_merge_size", default=2) ** 2
    outputs = vision.integer("out_hidden_size")
    unstated = "deepstack_visual_indexes" not in vision and config.text("model_type") in DEEP_TYPES
    deep = DEEP_MERGERS if unstated else len(vision.counts("deepstack_visual_indexes"))
    mergers = ("visual.merger", *(f"visual.deepstack_merger_list.{index}" for index in range(deep)))
    fixed = patch_elements(vision) + 1 + vision.integer("num_position_embeddings", default=2304) + 2
    return (
        Tower(
            name="visual",
            depth=vision.layers("depth"),
            layers="blocks",
            block=biased_block(width, inner, ("attn.qkv", "attn.proj"), ("mlp.linear_fc1", "mlp.linear_fc2")),
            block_elements=4 * width,
            frame=tuple(
                projection
                for name in mergers
                for projection in _merger(name, "linear_fc1", "linear_fc2", merged, outputs)
            ),
            frame_elements=fixed * width + deep * 2 * merged,
            deep_features=deep,
            media=patched_media(vision, width, outputs * (1 + deep), QWEN3_VIDEO_TOKENS),
        ),
    )


OMNI_VISION: Final[Mapping[str, Any]] = {
    "depth": 27,
    "hidden_size": 1152,
    "intermediate_size": 4304,
    "image_size": 768,
    "in_channels": 3,
    "patch_size": 16,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
    "out_hidden_size": 3584,
    "deepstack_visual_indexes": [8, 16, 24],
}
"""transformers 5.19, Qwen3OmniMoeVisionEncoderConfig."""


def qwen3_omni(config: Config) -> tuple[Tower, ...]:
    """Read both encoders of Qwen3-Omni's thinker (vLLM 0.33.0, Qwen3Omni_VisionTransformer)."""
    thinker = config.section("thinker_config") or config
    specified = thinker.section("vision_config") or Config({}, thinker.at("vision_config"))
    vision = replace(specified, fields={**OMNI_VISION, **specified.fields})
    grid = vision.integer("image_size") // vision.integer("patch_size")
    fields = {**vision.fields, "num_position_embeddings": max(1, grid * grid)}
    towers = qwen3_vl(replace(thinker, fields={**thinker.fields, "vision_config": fields}))
    sound = thinker.section("audio_config") or Config({}, thinker.at("audio_config"))
    return (
        *(replace(tower, frame=tuple(map(_omni_name, tower.frame))) for tower in towers),
        audio.qwen3_omni(sound),
    )


def _omni_name(projection: Projection) -> Projection:
    """Return a projection of a merger by Qwen3-Omni's name."""
    name = projection.name.replace("deepstack_merger_list", "merger_list")
    return replace(projection, name=name.replace("linear_fc1", "mlp.0").replace("linear_fc2", "mlp.2"))


def qwen3_asr(config: Config) -> tuple[Tower, ...]:
    """Read the encoder of Qwen3-ASR, which is that of Qwen3-Omni (vLLM 0.33.0, qwen3_asr.py)."""
    thinker = config.section("thinker_config") or config
    return (audio.qwen3_omni(thinker.section("audio_config") or Config({}, thinker.at("audio_config"))),)


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


def cohere_compass(config: Config) -> tuple[Tower, ...]:
    """Read the tower of Cohere Compass, which is that of Qwen3-VL (vLLM 0.32.0, Cohere_VisionTransformer)."""
    specified = config.section("vision_config")
    vision = {**COMPASS_VISION, **(specified.fields if specified is not None else {})}
    towers = qwen3_vl(replace(config, fields={**config.fields, "vision_config": vision}))
    return tuple(replace(tower, media=None) for tower in towers)


def ling3(config: Config) -> tuple[Tower, ...]:
    """Read the tower of Ling 3: Qwen3-VL's with another merger (vLLM 0.33.0, BailingMoeV3VLProjector)."""
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
