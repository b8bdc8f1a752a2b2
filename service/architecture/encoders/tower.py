"""The weights of an encoder of images or sound: projections of its layers, and modules around them."""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

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
    """Widths of the projections that the engine fuses into this one."""
    split: Split
    bias: bool = False
    quantizable: bool = True
    cast: bool = False
    """The engine makes it of the model's type once it is built."""
    heads: int = 1
    """Ranks that do not divide them have it in full each; 1 where the engine has no such rule."""


@dataclass(frozen=True, slots=True)
class Tower:
    """The weights of one encoder: equal layers, and modules around them."""

    name: str
    """Module name below the model."""
    depth: int
    block: tuple[Projection, ...]
    """Projections of one layer, named below ``<layers>.<index>``."""
    layers: str
    """Module that holds the layers, e.g. ``blocks``."""
    block_elements: int
    """Elements of norms and other small weights of one layer, on every rank in full."""
    frame: tuple[Projection, ...]
    """Projections outside the layers: mergers, projectors, named below the model."""
    frame_elements: int
    """Elements of patch and position embeddings and norms outside the layers, on every rank in full."""
    position_elements: int = 0
    """Elements of learned positions, which some releases shard."""
    quantizable: bool = True
    """Whether the engine passes the quantization to the tower."""
    quantized_by: frozenset[str] = frozenset()
    """Methods whose quantization it passes in any case.

    Source: vLLM 0.23.0 to 0.33.0, gemma4_mm.py _get_tower_quant_config and before it ``tower_quant``.
    """
    sound: bool = False
    """It encodes sound, not images and videos."""
    heads: int = 1
    """Ranks that do not divide them have it in full each; 1 where the engine has no such rule."""
    deep_features: int = 0
    """Inner layers whose features the decoder reads too; each has a buffer for the tokens of one step."""
    media: PatchedMedia | None = None
    """Sizes of its inputs, where they are known."""


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


def biased_block(
    width: int,
    inner: int,
    attention: tuple[str, str] = ("self_attn.qkv_proj", "self_attn.out_proj"),
    feed_forward: tuple[str, str] = ("mlp.fc1", "mlp.fc2"),
) -> tuple[Projection, ...]:
    """Return the projections of a layer that all have biases; their names are the usual ones if left out."""
    return (
        *attention_projections(attention, width, bias=True, output_bias=True),
        *feed_forward_projections(feed_forward, width, inner, gated=False, bias=True),
    )


SIGLIP_UNIT: Final = 64


def siglip_block(width: int, inner: int) -> tuple[Projection, ...]:
    """Return the same of SigLIP, whose feed-forward network is quantized if its sizes are multiples of 64.

    Source: vLLM 0.11.2 to 0.33.0, siglip.py SiglipMLP.
    """
    quantizable = width % SIGLIP_UNIT == 0 and inner % SIGLIP_UNIT == 0
    return tuple(
        replace(each, quantizable=quantizable) if each.name.startswith("mlp.") else each
        for each in biased_block(width, inner)
    )


VOCABULARY_UNIT: Final = 64
"""vLLM 0.33.0, vocab_parallel_embedding.py DEFAULT_VOCAB_PADDING_SIZE."""


def vocabulary_table(name: str, words: int, width: int) -> Projection:
    """Return a table of words that is split over the ranks, padded and never quantized."""
    rows = -(-words // VOCABULARY_UNIT) * VOCABULARY_UNIT
    return Projection(name, width, (rows,), Split.COLUMN, quantizable=False)
