"""Encoders of images that learned queries attend to: BLIP-2's vision model and Q-Former."""

from collections.abc import Mapping
from typing import Any, Final

from service.architecture.config import Config
from service.architecture.encoders.media import IMAGE_CHANNELS
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
