"""The weights before the first layer and after the last one."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class NgramTables:
    """Embeddings of the last few tokens together, which join that of the token (LongCat-Flash-Lite)."""

    tables: int
    rows: int
    """Of all tables together."""
    width: int
    """Elements of a row; a matrix per table leads to the hidden size."""


@dataclass(frozen=True, slots=True)
class PerLayerEmbedding:
    """A second embedding that feeds every layer a vector of its own (Gemma 3n and 4)."""

    vocab_size: int
    size: int
    """Elements per token and layer."""


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
