"""The encoders of Molmo, whose patches attention pools in squares."""

from typing import Any, Final

from service.architecture.config import Config
from service.architecture.encoders.media import IMAGE_CHANNELS
from service.architecture.encoders.siglip import NORM, part
from service.architecture.encoders.tower import Projection, Split, Tower, feed_forward_projections

WIDTH: Final = 1024
INNER: Final = 4096
LAYERS: Final = 23
POSITIONS: Final = 577
PATCH: Final = 14
READ: Final = 2
"""vLLM 0.20.2 and 0.33.0, molmo.py VisionBackboneConfig and VIT_LAYERS: constants of the class."""
VIT: Final[dict[str, Any]] = {
    "hidden_size": 1152,
    "intermediate_size": 4304,
    "num_hidden_layers": 27,
    "num_attention_heads": 16,
    "head_dim": 72,
    "image_patch_size": 14,
    "image_num_pos": 577,
}
"""vLLM 0.33.0, molmo2.py VitConfig."""
ADAPTER: Final[dict[str, Any]] = {
    "hidden_size": 1152,
    "num_attention_heads": 16,
    "head_dim": 72,
    "intermediate_size": 18_944,
    "text_hidden_size": 3584,
}
"""vLLM 0.33.0, molmo2.py AdapterConfig."""
_VIT: Final = "vision_backbone.image_vit"
_POOLING: Final = "vision_backbone.image_pooling_2d"
_PROJECTOR: Final = "vision_backbone.image_projector"


def molmo(config: Config) -> tuple[Tower, ...]:
    """Read the tower of Molmo, whose sizes its class knows (vLLM 0.20.2 and 0.33.0, MolmoVisionBackbone)."""
    inner = config.integer("intermediate_size", default=2 * WIDTH) // 2
    names = ("wq", "wk", "wv")
    own = tuple(Projection(f"attention.{name}", WIDTH, (WIDTH,), Split.COLUMN, bias=True) for name in names)
    pooled = tuple(
        Projection(f"{_POOLING}.{name}", READ * WIDTH, (WIDTH,), Split.COLUMN, bias=True) for name in names
    )
    return (
        Tower(
            name=_VIT,
            depth=LAYERS,
            layers="transformer.resblocks",
            block=(
                *own,
                Projection("attention.wo", WIDTH, (WIDTH,), Split.ROW, bias=True),
                *_network(WIDTH, INNER),
            ),
            block_elements=2 * NORM * WIDTH,
            frame=(
                *pooled,
                Projection(f"{_POOLING}.wo", WIDTH, (WIDTH,), Split.ROW, bias=True),
                *_projector(WIDTH, inner, config.integer("hidden_size")),
            ),
            # Two paddings, a class embedding, positions, patches and the first norm.
            frame_elements=(2 * READ + 1 + POSITIONS + IMAGE_CHANNELS * PATCH**2 + NORM) * WIDTH,
        ),
    )


def molmo2(config: Config) -> tuple[Tower, ...]:
    """Read the tower of Molmo 2 (vLLM 0.20.2 and 0.33.0, molmo2.py Molmo2VisionBackbone)."""
    vision, adapter = part(config, "vit_config", VIT), part(config, "adapter_config", ADAPTER)
    width, patch = vision.integer("hidden_size"), vision.integer("image_patch_size")
    depth = vision.layers("num_hidden_layers")
    stated = adapter.fields.get("vit_layers")
    read = [each for each in stated if isinstance(each, int)] if isinstance(stated, list) else [-3, -9]
    built = max((each + 1 if each >= 0 else depth + 1 + each for each in read), default=depth)
    queries, keys = _heads(vision)
    pooled, pooled_keys = _heads(adapter)
    inputs = max(1, len(read)) * width
    return (
        Tower(
            name=_VIT,
            depth=max(0, min(depth, built)),
            layers="transformer.resblocks",
            block=(
                Projection("attention.merged_qkv", width, (queries, keys, keys), Split.COLUMN, bias=True),
                Projection("attention.wo", queries, (width,), Split.ROW, bias=True),
                *_network(width, vision.integer("intermediate_size")),
            ),
            block_elements=2 * NORM * width,
            frame=(
                Projection(f"{_POOLING}.q_proj", inputs, (pooled,), Split.COLUMN, bias=True),
                Projection(f"{_POOLING}.merged_kv", inputs, (pooled_keys,) * 2, Split.COLUMN, bias=True),
                Projection(
                    f"{_POOLING}.o_proj", pooled, (adapter.integer("hidden_size"),), Split.ROW, bias=True
                ),
                *_projector(
                    adapter.integer("hidden_size"),
                    adapter.integer("intermediate_size"),
                    adapter.integer("text_hidden_size"),
                ),
            ),
            frame_elements=(vision.integer("image_num_pos") + IMAGE_CHANNELS * patch**2 + 1) * width,
        ),
    )


def _heads(part_: Config) -> tuple[int, int]:
    """Return the widths of queries and of keys."""
    heads, size = part_.count("num_attention_heads"), part_.integer("head_dim")
    return heads * size, part_.count("num_key_value_heads", default=heads) * size


def _network(width: int, inner: int) -> tuple[Projection, ...]:
    names = ("feed_forward.w1", "feed_forward.w2")
    return feed_forward_projections(names, width, inner, gated=False, bias=True)


def _projector(width: int, inner: int, outputs: int) -> tuple[Projection, ...]:
    return (
        Projection(f"{_PROJECTOR}.merged_linear", width, (inner, inner), Split.COLUMN),
        Projection(f"{_PROJECTOR}.down_proj", inner, (outputs,), Split.ROW),
    )
