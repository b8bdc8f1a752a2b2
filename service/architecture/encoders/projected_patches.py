"""CLIP and SigLIP encoders, whose layers are alike, followed by a projector to the decoder's width."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from service.architecture.config import MAX_LAYERS, Config
from service.architecture.encoders.adapted_patches import pixtral_tower
from service.architecture.encoders.media import IMAGE_CHANNELS
from service.architecture.encoders.siglip import (
    CLIP,
    DEFAULT_HIDDEN,
    NORM,
    SIGLIP,
    SIGLIP2,
    linear_elements,
    sides,
    siglip_tower,
    text_width,
    vision_part,
)
from service.architecture.encoders.tower import Projection, Split, Tower, attention_projections

PIXTRAL: Final[Mapping[str, Any]] = {
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_hidden_layers": 24,
    "patch_size": 16,
    "image_size": 1024,
}
"""transformers 4.57 and 5.19, PixtralVisionConfig."""
INTERN: Final[Mapping[str, Any]] = {
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_hidden_layers": 24,
    "patch_size": 14,
    "image_size": 448,
}
"""transformers 5.16, InternVLVisionConfig."""
ARIA_QUERIES: Final = 256
"""transformers 5.16, AriaConfig: projector_patch_to_query_dict."""
MAX_QUERIES: Final = 1 << 20
MERGED: Final = 4
"""Patches that MiniCPM-V merges into one."""
LEAST_RATIO: Final = 0.01


def paligemma(config: Config) -> tuple[Tower, ...]:
    """Read the tower of PaliGemma (vLLM 0.33.0, PaliGemmaForConditionalGeneration)."""
    vision = vision_part(config, SIGLIP)
    width = vision.integer("hidden_size")
    outputs = vision.integer("projection_dim", default=config.integer("projection_dim", default=2048))
    extra = NORM * width + linear_elements(width, outputs)
    return (siglip_tower("vision_tower.vision_model", vision, extra=extra),)


def idefics3(config: Config) -> tuple[Tower, ...]:
    """Read the tower of Idefics 3 and SmolVLM (vLLM 0.33.0, Idefics3VisionTransformer)."""
    vision = vision_part(config, {**SIGLIP, "hidden_size": 1152, "num_hidden_layers": 12, "patch_size": 32})
    width = vision.integer("hidden_size")
    merged = width * config.count("scale_factor", default=2) ** 2
    name = "model.connector.modality_projection.proj"
    frame = (Projection(name, merged, (text_width(config),), Split.REPLICATED),)
    return (siglip_tower("model.vision_model", vision, frame, extra=NORM * width),)


def aria(config: Config) -> tuple[Tower, ...]:
    """Read the tower of Aria and its projector, whose queries attend to the patches.

    Source: vLLM 0.28.0 and 0.33.0, aria.py AriaVisionTransformer, AriaProjector and AriaProjectorMLP.
    """
    vision = vision_part(config, {**SIGLIP, "hidden_size": 1152, "num_hidden_layers": 12, "patch_size": 32})
    width, hidden = vision.integer("hidden_size"), text_width(config)
    names = "multi_modal_projector.feed_forward"
    frame = (
        Projection(f"{names}.linear_in", width, (hidden,), Split.COLUMN, quantizable=False),
        Projection(f"{names}.linear_out", hidden, (hidden,), Split.ROW, quantizable=False),
    )
    projections = 3 * linear_elements(width, width, bias=False) + 5 * linear_elements(width, width)
    return (
        siglip_tower(
            "vision_tower", vision, frame, extra=projections + (3 * NORM + _queries(config)) * width
        ),
    )


def _queries(config: Config) -> int:
    """Return the most vectors that Aria makes of an image: 256 in its default table."""
    table = config.section("projector_patch_to_query_dict")
    stated = [] if table is None else [each for each in table.fields.values() if isinstance(each, int)]
    most = max(stated, default=ARIA_QUERIES)
    return config.count("max_value_projector_patch_to_query_dict", default=max(1, min(most, MAX_QUERIES)))


def minicpm(config: Config) -> tuple[Tower, ...]:
    """Read the tower of MiniCPM-V 4.6 and later, with a merger between its layers and one after them.

    Source: vLLM 0.29.0 and 0.33.0, minicpmv4_6.py MiniCPMV4_6ViTWindowAttentionMerger and MiniCPMV4_6Merger.
    """
    vision = vision_part(config, {**SIGLIP, "patch_size": 14})
    width, hidden = vision.integer("hidden_size"), text_width(config)
    merged, inner = MERGED * width, MERGED * vision.integer("intermediate_size")
    depth = vision.layers("num_hidden_layers") - config.boolean("drop_vision_last_layer")
    between = NORM * (width + merged) + linear_elements(merged, inner) + linear_elements(inner, width)
    after = NORM * merged + linear_elements(merged, merged) + linear_elements(merged, hidden)
    frame = attention_projections(
        ("vit_merger.self_attn.qkv_proj", "vit_merger.self_attn.out_proj"), width, bias=True, output_bias=True
    )
    return (siglip_tower("vpm", vision, frame, depth=depth, extra=NORM * width + between + after),)


def cohere2_vision(config: Config) -> tuple[Tower, ...]:
    """Read the tower of Command A Vision (vLLM 0.33.0, Cohere2VisionMultiModalProjector)."""
    vision = vision_part(config, SIGLIP)
    width = vision.integer("hidden_size")
    merged = width * config.count("downsample_factor", default=2) ** 2
    inner = config.integer("alignment_intermediate_size", default=36_864) // 2
    names = "multi_modal_projector"
    hidden = text_width(config)
    frame = (
        Projection(f"{names}.linear_1", merged, (inner, inner), Split.COLUMN, bias=True, quantizable=False),
        Projection(f"{names}.linear_2", inner, (hidden,), Split.ROW, bias=True, quantizable=False),
    )
    return (siglip_tower("vision_tower.vision_model", vision, frame, extra=NORM * width),)


def aya_vision(config: Config) -> tuple[Tower, ...]:
    """Read the tower of Aya Vision, whose projector every rank has (vLLM 0.20.2, aya_vision.py)."""
    vision = vision_part(config, SIGLIP)
    width, hidden = vision.integer("hidden_size"), text_width(config)
    merged = width * config.count("downsample_factor", default=2) ** 2
    inner = config.integer("alignment_intermediate_size", default=hidden)
    projector = NORM * merged + linear_elements(merged, inner) + linear_elements(inner // 2, hidden)
    depth = vision.layers("num_hidden_layers")
    read = _read_layers(config, depth, default=-1)
    last = NORM * width if read == depth else 0
    return (siglip_tower("vision_tower.vision_model", vision, depth=read, extra=last + projector),)


def paddleocr(config: Config) -> tuple[Tower, ...]:
    """Read the tower of PaddleOCR-VL (vLLM 0.33.0, SiglipVisionTransformer and Projector)."""
    vision = vision_part(
        config, {**SIGLIP, "hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27}
    )
    width = vision.integer("hidden_size")
    merged = width * vision.count("spatial_merge_size", default=2) ** 2
    projector = NORM * width + linear_elements(merged, merged) + linear_elements(merged, text_width(config))
    return (siglip_tower("visual.vision_model", vision, extra=NORM * width + projector),)


def intern_vl(config: Config) -> tuple[Tower, ...]:
    """Read the tower of InternVL in the transformers library's form (vLLM 0.33.0, InternS1VisionModel)."""
    vision = vision_part(config, INTERN)
    width, inner, hidden = (
        vision.integer("hidden_size"),
        vision.integer("intermediate_size"),
        text_width(config),
    )
    image, patch = sides(vision, "image_size"), sides(vision, "patch_size")
    positions = (image[0] // patch[0]) * (image[1] // patch[1]) + 1
    channels = vision.count("num_channels", default=IMAGE_CHANNELS)
    merged = int(width / max(config.number("downsample_ratio", 0.5), LEAST_RATIO) ** 2)
    attention = 4 * width * width + (1 + 3 * vision.boolean("attention_bias")) * width
    norms = (2 * NORM + 2 + 2 * vision.boolean("use_qk_norm")) * width
    return (
        Tower(
            name="vision_tower",
            depth=vision.layers("num_hidden_layers"),
            layers="encoder.layer",
            block=(
                Projection("mlp.fc1", width, (inner,), Split.COLUMN, bias=True, quantizable=False),
                Projection("mlp.fc2", inner, (width,), Split.ROW, bias=True, quantizable=False),
            ),
            block_elements=attention + norms,
            frame=(),
            frame_elements=(channels * patch[0] * patch[1] + 1 + 1 + positions) * width
            + (0 if vision.boolean("use_mean_pooling", default=True) else NORM * width)
            + NORM * merged
            + linear_elements(merged, hidden)
            + linear_elements(hidden, hidden),
        ),
    )


def lfm2(config: Config) -> tuple[Tower, ...]:
    """Read the tower of LFM2-VL (vLLM 0.33.0, Siglip2Model and Lfm2VLMultiModalProjector)."""
    vision = vision_part(config, SIGLIP2)
    width = vision.integer("hidden_size")
    merged = width * config.count("downsample_factor", default=2) ** 2
    inner = config.integer("projector_hidden_size", default=2560)
    bias = config.boolean("projector_bias", default=True)
    norm = NORM * merged if config.boolean("projector_use_layernorm", default=True) else 0
    projector = (
        norm
        + linear_elements(merged, inner, bias=bias)
        + linear_elements(inner, text_width(config), bias=bias)
    )
    return (siglip_tower("vision_tower.vision_model", vision, extra=NORM * width + projector),)


def llava(config: Config) -> tuple[Tower, ...] | None:
    """Read the tower of LLaVA and Pixtral, ``None`` for one of no kind that the engine has.

    Source: vLLM 0.33.0, llava.py init_vision_tower_for_llava and LlavaMultiModalProjector.
    """
    names, bias = "multi_modal_projector", config.boolean("multimodal_projector_bias", default=True)
    hidden = text_width(config)
    inputs = vision_part(config, CLIP).integer("hidden_size")
    frame = (
        Projection(f"{names}.linear_1", inputs, (hidden,), Split.COLUMN, bias),
        Projection(f"{names}.linear_2", hidden, (hidden,), Split.ROW, bias),
    )
    return _llava(config, frame, extra=0)


def llava_next(config: Config) -> tuple[Tower, ...] | None:
    """Read the tower of LLaVA-NeXT, which has a vector for the end of a row of an image."""
    towers = llava(config)
    if towers is None:
        return None
    newline = Tower("image_newline", 0, (), "", 0, (), text_width(config), quantizable=False)
    return (*towers, newline)


def fuyu(config: Config) -> tuple[Tower, ...]:
    """Read the tower of Fuyu, which is one matrix for the elements of a patch (vLLM 0.22.1, fuyu.py)."""
    size = config.integer("patch_size", default=30)
    elements = config.count("num_channels", default=IMAGE_CHANNELS) * size * size
    patches = Projection("vision_embed_tokens", elements, (text_width(config),), Split.COLUMN, bias=True)
    return (Tower("vision_embed_tokens", 0, (), "", 0, (patches,), 0),)


def llava_next_video(config: Config) -> tuple[Tower, ...] | None:
    """Read the tower of LLaVA-NeXT-Video, whose projector every rank has (vLLM 0.22.1 and 0.32.0)."""
    return _llava(config, (), extra=_whole_projector(config))


def llava_onevision(config: Config) -> tuple[Tower, ...] | None:
    """Read the tower of LLaVA-OneVision, whose projector every rank has (vLLM 0.33.0, llava_onevision.py)."""
    return _llava(config, (), extra=_whole_projector(config) + text_width(config))


def _whole_projector(config: Config) -> int:
    hidden, width = text_width(config), vision_part(config, CLIP).integer("hidden_size")
    bias = config.boolean("multimodal_projector_bias", default=True)
    return linear_elements(width, hidden, bias=bias) + linear_elements(hidden, hidden, bias=bias)


def _llava(config: Config, frame: tuple[Projection, ...], *, extra: int) -> tuple[Tower, ...] | None:
    specified = config.section("vision_config")
    kind = "clip_vision_model" if specified is None else specified.text("model_type")
    if kind == "clip_vision_model":
        vision = vision_part(config, CLIP)
        # A class embedding with a position of its own and a norm before the first layer, for a patch's bias.
        extra += (1 + 1 + NORM - 1) * vision.integer("hidden_size")
    elif kind == "siglip_vision_model":
        vision = vision_part(config, SIGLIP)
    elif kind == "pixtral":
        vision = vision_part(config, PIXTRAL)
        tower = pixtral_tower(vision, frame, extra=extra)
        return (replace(tower, depth=_read_layers(config, tower.depth)),)
    else:
        return None
    depth = _read_layers(config, vision.layers("num_hidden_layers"))
    return (siglip_tower("vision_tower.vision_model", vision, frame, depth=depth, extra=extra),)


def _read_layers(config: Config, depth: int, *, default: int = -2) -> int:
    """Return how many layers are built: those up to the last one whose features are read."""
    layers = config.fields.get("vision_feature_layer", default)
    chosen = [layer for layer in (layers if isinstance(layers, list) else [layers]) if isinstance(layer, int)]
    read = [layer if layer >= 0 else depth + 1 + layer for layer in chosen[:MAX_LAYERS]]
    return max(0, min(depth, max(read, default=depth)))


def bagel(config: Config) -> tuple[Tower, ...]:
    """Read the tower of Bagel and its connector (vLLM 0.33.0, BagelVisionMLP)."""
    specified = config.section("vit_config") or Config({}, config.at("vit_config"))
    vision = Config({**SIGLIP, **specified.fields}, specified.pointer)
    width = vision.integer("hidden_size")
    hidden = (config.section("llm_config") or config).integer("hidden_size", default=DEFAULT_HIDDEN)
    frame = (
        Projection("connector.fc1", width, (hidden,), Split.COLUMN, bias=True),
        Projection("connector.fc2", hidden, (hidden,), Split.ROW, bias=True),
    )
    return (siglip_tower("vit_model.vision_model", vision, frame, extra=NORM * width),)


def isaac(config: Config) -> tuple[Tower, ...]:
    """Read the tower of Isaac, which merges squares of patches (vLLM 0.33.0, IsaacVisionEmbedding)."""
    vision = vision_part(config, SIGLIP2)
    width = vision.integer("hidden_size")
    scale = vision.count("pixel_shuffle_scale_factor", default=config.count("pixel_shuffle_scale", default=1))
    merged = width * scale**2
    name = "vision_embedding"
    frame = (
        Projection(f"{name}.linear_fc1", merged, (4 * merged,), Split.COLUMN),
        Projection(f"{name}.linear_fc2", 4 * merged, (text_width(config),), Split.ROW),
    )
    return (siglip_tower(f"{name}.transformer", vision, frame, extra=NORM * width),)
