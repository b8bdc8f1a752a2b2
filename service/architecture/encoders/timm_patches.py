"""Encoders of the timm library, whose sizes their names fix."""

from typing import Final

from service.architecture.config import MAX_LAYERS, Config
from service.architecture.encoders.siglip import NORM, linear_elements, part
from service.architecture.encoders.tower import Projection, Split, Tower

SO400M: Final = 1152
SO400M_INNER: Final = 4304
SO400M_DEPTH: Final = 27
SO400M_POSITIONS: Final = 729
SO400M_PATCH: Final = 3 * 14 * 14
"""timm 1.0, vit_so400m_patch14_siglip_384: width, inner width, layers, patches and values of a patch."""


def deepseek_vl2(config: Config) -> tuple[Tower, ...]:
    """Read the tower of DeepSeek-VL2, whatever its vision part says, and its projector.

    Source: vLLM 0.20.2 and 0.33.0, deepseek_vl2.py _init_vision_module, patch_vit_for_tp, MlpProjector.
    """
    width = SO400M
    fixed = (SO400M_PATCH + 1 + SO400M_POSITIONS + NORM) * width
    # The pooling after the last layer: a vector, queries, keys with values, outputs and a norm.
    pooling = width + 4 * linear_elements(width, width) + NORM * width
    projector = part(config, "projector_config")
    outputs = projector.integer("n_embed", default=2048)
    return (
        Tower(
            name="vision",
            depth=SO400M_DEPTH,
            layers="blocks",
            block=_network(""),
            block_elements=4 * linear_elements(width, width) + 2 * NORM * width,
            frame=_network("vision.attn_pool."),
            frame_elements=fixed + pooling + _projector(projector, outputs) + 2 * outputs,
        ),
    )


def _network(prefix: str) -> tuple[Projection, ...]:
    return (
        Projection(f"{prefix}mlp.fc1", SO400M, (SO400M_INNER,), Split.COLUMN, bias=True),
        Projection(f"{prefix}mlp.fc2", SO400M_INNER, (SO400M,), Split.ROW, bias=True),
    )


def _projector(projector: Config, outputs: int) -> int:
    inputs = projector.integer("input_dim", default=SO400M)
    kind = projector.text("projector_type", default="downsample_mlp_gelu")
    if kind in ("identity", "linear"):
        return linear_elements(inputs, outputs) if kind == "linear" else 0
    depth = projector.integer("depth", default=2, maximum=MAX_LAYERS)
    if kind == "mlp_gelu":
        return linear_elements(inputs, outputs) + (depth - 1) * linear_elements(outputs, outputs)
    merged = inputs * projector.count("downsample_ratio", default=2) ** 2
    wide = outputs * projector.count("mlp_ratio", default=1)
    between = max(0, depth - 2) * linear_elements(wide, wide)
    return linear_elements(merged, wide) + between + linear_elements(wide, outputs)
