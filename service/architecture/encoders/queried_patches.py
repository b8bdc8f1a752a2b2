"""Encoders of images that learned queries attend to: of BLIP-2, Granite 4 Vision and the first Qwen-VL."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from service.architecture.config import MAX_LAYERS, Config, InvalidConfig
from service.architecture.encoders.media import IMAGE_CHANNELS
from service.architecture.encoders.siglip import SIGLIP, siglip_tower, text_width, vision_part
from service.architecture.encoders.tower import Projection, Split, Tower, feed_forward_projections
from service.units import ceil_div

VISION: Final[Mapping[str, Any]] = {
    "hidden_size": 1408,
    "intermediate_size": 6144,
    "num_hidden_layers": 39,
    "image_size": 224,
    "patch_size": 14,
}
"""transformers 5.19, Blip2VisionConfig."""
QFORMER: Final[Mapping[str, Any]] = {
    "hidden_size": 768,
    "intermediate_size": 3072,
    "num_hidden_layers": 12,
    "cross_attention_frequency": 2,
}
"""transformers 5.19, Blip2QFormerConfig."""
TEXT_WIDTH: Final = 768
"""transformers 5.19, OPTConfig, which Blip2Config takes where there is no text part."""
WINDOWED: Final[Mapping[str, Any]] = {
    "intermediate_size": 3072,
    "num_hidden_layers": 1,
    "cross_attention_frequency": 1,
}
"""vLLM 0.33.0, granite4_vision.py WindowQFormerDownsampler: what its Q-Former is made with."""
NEEDS_VL: Final = (
    "makes this a model of text and images, which the engine does not start by the class that architectures "
    "names: hf_overrides must name QwenVLForConditionalGeneration in its place"
)
QWEN_PLACES: Final = 256
"""vLLM 0.20.2, qwen_vl.py VisionTransformer: learned positions, and queries unless the config says more."""
QUARTERS: Final = 4
"""The same, spatial_projectors: one for each place in a square of two by two patches."""
SIDES: Final = re.compile(r"(\d{1,3})/(\d{1,3})")
"""The sides of a window after and before it is sampled, as ``downsample_rate`` states them: 4/8."""
NORM: Final = 2
"""A norm has a weight and a bias for each channel."""


def blip2(config: Config) -> tuple[Tower, ...]:
    """Read the tower of BLIP-2, whose Q-Former every rank has (vLLM 0.22.1 to 0.32.0, blip2.py)."""
    vision, queries = _part(config, "vision_config", VISION), _part(config, "qformer_config", QFORMER)
    width, inner, size = (vision.integer(name) for name in ("hidden_size", "intermediate_size", "patch_size"))
    positions = (vision.integer("image_size") // size) ** 2 + 1
    patches = (IMAGE_CHANNELS * size * size + 1) * width
    text = config.section("text_config") or config
    hidden = queries.integer("hidden_size")
    projection = _linear(hidden, text.integer("hidden_size", default=TEXT_WIDTH))
    query_tokens = config.count("num_query_tokens", default=32) * hidden
    biased = vision.boolean("qkv_bias", default=True)
    return (
        Tower(
            name="vision_model",
            depth=vision.layers("num_hidden_layers"),
            layers="encoder.layers",
            block=(
                Projection("self_attn.qkv", width, (width,) * 3, Split.COLUMN, biased),
                Projection("self_attn.projection", width, (width,), Split.ROW, bias=True),
                *feed_forward_projections(("mlp.fc1", "mlp.fc2"), width, inner, gated=False, bias=True),
            ),
            block_elements=2 * NORM * width,
            frame=(),
            # A class embedding and the norm behind the last layer stand beside patches and positions.
            frame_elements=patches
            + (positions + 1 + NORM) * width
            + _qformer(queries, width)
            + query_tokens
            + projection,
        ),
    )


def granite4_vision(config: Config) -> tuple[Tower, ...]:
    """Read the tower of Granite 4 Vision, whose layers several Q-Formers read, which every rank has.

    Source: vLLM 0.20.2 and 0.33.0, granite4_vision.py.
    """
    vision = vision_part(config, SIGLIP)
    width, hidden = vision.integer("hidden_size"), text_width(config)
    queries = Config({**WINDOWED, "hidden_size": width}, vision.pointer)
    query_side, window_side = _sides(config)
    # Beside the Q-Former: a norm, queries, positions of a window and the projection to the decoder's width.
    projector = (
        _qformer(queries, width) + (NORM + query_side**2 + window_side**2) * width + _linear(width, hidden)
    )
    spatial = QUARTERS * config.boolean("use_spatial_sampling", default=True)
    newline = hidden * config.boolean("use_image_newline_parameter", default=True)
    levels, targets = (_length(config, name) for name in ("deepstack_layer_map", "spatial_target_layers"))
    tower = siglip_tower("vision_tower.vision_model", vision, extra=(levels + spatial) * projector + newline)
    return (replace(tower, deep_features=levels + targets),)


def _sides(config: Config) -> tuple[int, int]:
    """Return the sides of a window after and before it is sampled."""
    found = SIDES.fullmatch(config.text("downsample_rate", default="4/8"))
    if found is None:
        raise InvalidConfig(config.at("downsample_rate"), "is not of the form 4/8")
    return int(found[1]), int(found[2])


def _length(config: Config, name: str) -> int:
    stated = config.fields.get(name)
    return min(len(stated), MAX_LAYERS) if isinstance(stated, list) else 0


def _qformer(queries: Config, images: int) -> int:
    hidden, inner = queries.integer("hidden_size"), queries.integer("intermediate_size")
    layers, every = queries.layers("num_hidden_layers"), queries.count("cross_attention_frequency")
    ends = _linear(hidden, hidden) + NORM * hidden
    own = 3 * _linear(hidden, hidden) + ends
    crossed = _linear(hidden, hidden) + 2 * _linear(images, hidden) + ends
    network = _linear(hidden, inner) + _linear(inner, hidden) + NORM * hidden
    return layers * (own + network) + ceil_div(layers, every) * crossed + NORM * hidden


def _part(config: Config, name: str, defaults: Mapping[str, Any]) -> Config:
    specified = config.section(name) or Config({}, config.at(name))
    return Config({**defaults, **specified.fields}, specified.pointer)


def _linear(inputs: int, outputs: int) -> int:
    return (inputs + 1) * outputs


def qwen_vl(config: Config) -> tuple[Tower, ...]:
    """Read the tower of the first Qwen-VL; its networks alone are quantized and split.

    Source: vLLM 0.20.2, qwen_vl.py VisionTransformer, VisualAttention and QwenVLMLP; resampler.py Resampler2.
    """
    vision = _part(config, "visual", {"output_dim": 512})
    width, outputs = vision.integer("width"), vision.integer("output_dim")
    inner = max(1, int(width * vision.number("mlp_ratio", 4.0)))
    places = vision.integer("n_queries", default=QWEN_PLACES)
    patch = IMAGE_CHANNELS * vision.integer("patch_size") ** 2
    # Queries and their positions attend by four projections to features of their width, and have norms.
    joined = 0 if width == outputs else width * outputs
    pool = 2 * places * outputs + joined + 4 * _linear(outputs, outputs) + 2 * NORM * outputs
    return (
        Tower(
            name="transformer.visual.transformer",
            depth=vision.layers("layers"),
            layers="resblocks",
            block=feed_forward_projections(("mlp.c_fc", "mlp.c_proj"), width, inner, gated=False, bias=True),
            block_elements=4 * _linear(width, width) + 2 * NORM * width,
            frame=(),
            frame_elements=(patch + QWEN_PLACES + NORM) * width + pool + (NORM + outputs) * outputs,
        ),
    )


def no_qwen_vl(config: Config) -> tuple[Tower, ...]:
    """Return no tower for the class of the first Qwen's text.

    Source: vLLM 0.10.2 to 0.23.0, qwen.py QWenLMHeadModel.__init__: a RuntimeError; asked of 0.20.2.

    Raises:
        InvalidConfig: the config is that of Qwen-VL, which this class does not start with.
    """
    if "visual" in config:
        raise InvalidConfig(config.at("visual"), NEEDS_VL)
    return ()
