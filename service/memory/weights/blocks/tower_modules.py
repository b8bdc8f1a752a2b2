"""The modules of an encoder of images or sound."""

from collections.abc import Iterator, Mapping
from typing import Final

from service.architecture.encoders.tower import Projection, Split, Tower
from service.architecture.model import ModelArchitecture
from service.memory.media_choices import MediaChoices
from service.memory.shards import Shards
from service.memory.weights.modules import (
    PARTS_OF_GATED,
    PARTS_OF_QKV,
    Linear,
    Modules,
    PlainModule,
)
from service.memory.weights.weight_layout import TowerLayout

FUSED: Final[Mapping[str, tuple[str, ...]]] = {
    "qkv_proj": PARTS_OF_QKV,
    "gate_up_proj": PARTS_OF_GATED,
}
"""Fused projections of encoders, by the last part of their names, and what checkpoints call their parts."""


def modalities(architecture: ModelArchitecture, layout: TowerLayout, *, sound: bool) -> tuple[str, ...]:
    """Return the modalities that a tower encodes, by the names of ``limit_mm_per_prompt``."""
    if sound:
        return ("audio",)
    if architecture.class_name in layout.chunked:
        return ("vision_chunk",)
    return ("image",) if architecture.class_name in layout.images_alone else ("image", "video")


def built_towers(
    architecture: ModelArchitecture, layout: TowerLayout, media: MediaChoices
) -> Iterator[Tower]:
    """Yield the towers that the engine builds: all but those for which a prompt may have no item.

    Source: vLLM 0.15.0 to 0.32.0, SupportsMultiModal._mark_tower_model; 0.11.0 to 0.14.0, the models'
    own ``get_limit_per_prompt``.
    """
    always = architecture.class_name in layout.always_built
    for tower in architecture.media.towers:
        if always or any(map(media.serves, modalities(architecture, layout, sound=tower.sound))):
            yield tower


def tower_modules(
    tower: Tower, shards: Shards, *, sharded_positions: bool, quantizable: bool = True
) -> Modules:
    """Yield the modules of one tower.

    ``sharded_positions``: learned positions are split over the ranks; ``quantizable``: the release's class
    passes the checkpoint's quantization to this tower.
    """
    if tower.heads > 1 and tower.heads % shards.tensor_parallel_size:
        shards = Shards()
    for index in range(tower.depth):
        prefix = f"{tower.name}.{tower.layers}.{index}."
        for projection in tower.block:
            yield _projection(projection, prefix, shards, quantizable=quantizable)
    for projection in tower.frame:
        yield _projection(projection, "", shards, quantizable=quantizable)
    positions = tower.position_elements
    yield PlainModule(
        tower.depth * tower.block_elements
        + tower.frame_elements
        + (shards.share(positions) if sharded_positions else positions)
    )


def _projection(projection: Projection, prefix: str, shards: Shards, *, quantizable: bool) -> Linear:
    if projection.heads > 1 and projection.heads % shards.tensor_parallel_size:
        shards = Shards()
    inputs, outputs = projection.inputs, projection.outputs
    if projection.split is Split.COLUMN:
        outputs = tuple(map(shards.share, outputs))
    elif projection.split is Split.ROW:
        inputs = shards.share(inputs)
    return Linear(
        prefix + projection.name,
        inputs,
        outputs,
        FUSED.get(projection.name.rpartition(".")[2], ()),
        bias=sum(outputs) if projection.bias else 0,
        input_shards=shards.tensor_parallel_size if projection.split is Split.ROW else 1,
        splits_outputs=shards.splits and projection.split is Split.COLUMN,
        quantizable=quantizable and projection.quantizable,
        cast=projection.cast,
    )
