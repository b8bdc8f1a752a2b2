"""Encoders of images and sound as far as their weights count: projections, layers, frame."""

from dataclasses import dataclass
from enum import StrEnum

from service.architecture.encoders.media import PatchedMedia


class Split(StrEnum):
    """How tensor parallelism divides a projection."""

    COLUMN = "column"
    ROW = "row"
    REPLICATED = "replicated"


@dataclass(frozen=True, slots=True)
class Projection:
    """One linear layer of a tower."""

    name: str
    inputs: int
    outputs: tuple[int, ...]
    """One width per projection that the engine fuses."""
    split: Split
    bias: bool = False


@dataclass(frozen=True, slots=True)
class Tower:
    """An encoder: the same block again and again, with a frame around it."""

    name: str
    """Module name below the model."""
    depth: int
    block: tuple[Projection, ...]
    """Projections of one layer, named below ``<layers>.<index>``."""
    layers: str
    """Module that holds the layers, e.g. ``blocks``."""
    block_elements: int
    """Norms and other small weights of one layer, on every rank in full."""
    frame: tuple[Projection, ...]
    """Projections outside the layers: mergers, projectors, named below the model."""
    frame_elements: int
    """Patch and position embeddings and norms outside the layers, on every rank in full."""
    position_elements: int = 0
    """Learned positions that some releases shard."""
    quantizable: bool = True
    """Whether the engine hands its quantization to the tower at all."""
    deep_features: int = 0
    """Inner layers whose features the decoder takes up as well, each through a buffer as long as a step."""
    media: PatchedMedia | None = None
    """What it encodes, where that is known."""


def attention_projections(
    names: tuple[str, str], width: int, *, bias: bool, output_bias: bool
) -> tuple[Projection, ...]:
    """Return the fused and the last projection of an encoder's attention."""
    return (
        Projection(names[0], width, (width, width, width), Split.COLUMN, bias),
        Projection(names[1], width, (width,), Split.ROW, output_bias),
    )


def feed_forward_projections(
    names: tuple[str, str], width: int, inner: int, *, gated: bool, bias: bool
) -> tuple[Projection, ...]:
    """Return the projections of an encoder's feed-forward network."""
    return (
        Projection(names[0], width, (inner, inner) if gated else (inner,), Split.COLUMN, bias),
        Projection(names[1], inner, (width,), Split.ROW, bias),
    )


def biased_block(width: int, inner: int) -> tuple[Projection, ...]:
    """Return the projections of a layer that all have biases, under the usual names."""
    return (
        *attention_projections(
            ("self_attn.qkv_proj", "self_attn.out_proj"), width, bias=True, output_bias=True
        ),
        *feed_forward_projections(("mlp.fc1", "mlp.fc2"), width, inner, gated=False, bias=True),
    )
