"""The modules of an encoder of images or sound."""

from service.architecture.encoders.tower import Projection, Split, Tower
from service.memory.weights.modules import (
    Linear,
    Modules,
    PlainModule,
    Shards,
)


def tower_modules(tower: Tower, shards: Shards, *, sharded_positions: bool) -> Modules:
    """Yield the modules of one tower.

    ``sharded_positions``: learned positions are split over the ranks.
    """
    for index in range(tower.depth):
        prefix = f"{tower.name}.{tower.layers}.{index}."
        for projection in tower.block:
            yield _projection(projection, prefix, shards, quantizable=tower.quantizable)
    for projection in tower.frame:
        yield _projection(projection, "", shards, quantizable=tower.quantizable)
    positions = tower.position_elements
    yield PlainModule(
        tower.depth * tower.block_elements
        + tower.frame_elements
        + (shards.share(positions) if sharded_positions else positions)
    )


def _projection(projection: Projection, prefix: str, shards: Shards, *, quantizable: bool) -> Linear:
    inputs, outputs = projection.inputs, projection.outputs
    if projection.split is Split.COLUMN:
        outputs = tuple(map(shards.share, outputs))
    elif projection.split is Split.ROW:
        inputs = shards.share(inputs)
    return Linear(
        prefix + projection.name,
        inputs,
        outputs,
        bias=sum(outputs) if projection.bias else 0,
        quantizable=quantizable,
    )
