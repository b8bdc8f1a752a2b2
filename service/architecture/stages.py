"""What stands around the layers of a model, and which stages of a pipeline build it."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class StageFrame:
    """What stands around the layers and every pipeline stage builds, used or not.

    Without, the first stage has the embedding and the last one the norm and the output.
    """

    embedding: bool = False
    norm: bool = False
    output: bool = False


ENDS_ONLY: Final = StageFrame()
EMBEDDING_EVERYWHERE: Final = StageFrame(embedding=True)
ALL_EVERYWHERE: Final = StageFrame(embedding=True, norm=True, output=True)


@dataclass(frozen=True, slots=True)
class NgramTables:
    """Embeddings of the last few tokens together, which join that of the token (LongCat-Flash-Lite)."""

    tables: int
    rows: int
    """Of all tables together."""
    width: int
    """Elements of a row; a matrix per table leads to the hidden size."""


@dataclass(frozen=True, slots=True)
class ModelEnds:
    """The weights before the first layer and after the last one, beside embedding and output."""

    norm_weights: int = 1
    """Normalization weights of the hidden size after the last layer; with a bias, two."""
    embedding_norm_weights: int = 0
    """The same after the embedding."""
    position_rows: int = 0
    """Learned positions, each of the hidden size."""
    output_bias: bool = False
    output_float32: bool = False
    """The output is kept in 32 bits, whatever the model's type (MiniMax)."""
    embedding_size: int | None = None
    """Width of embedding and output where it is not the hidden size; projections lead in and out."""
    ngrams: NgramTables | None = None
    whole_embedding: bool = False
    """Every rank holds the whole embedding; an output of its own is split all the same."""


PLAIN_ENDS: Final = ModelEnds()
