"""The weights before the first layer and after the last one."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class NgramTables:
    """Embeddings of n-grams of the last tokens, added to the token's embedding (LongCat-Flash-Lite)."""

    tables: int
    rows: int
    """Rows of all tables together."""
    width: int
    """Elements of a row; one matrix per table projects it to the hidden size."""


@dataclass(frozen=True, slots=True)
class PerLayerEmbedding:
    """A second embedding that feeds every layer a vector of its own (Gemma 3n and 4)."""

    vocab_size: int
    size: int
    """Elements per token and layer."""


@dataclass(frozen=True, slots=True)
class ModelEnds:
    """The weights before the first layer and after the last one, without the embedding and the output."""

    norm_weights: int = 1
    """Vectors of the hidden size in the norm after the last layer; two with a bias."""
    embedding_norm_weights: int = 0
    """Vectors of the hidden size in the norm after the embedding."""
    position_rows: int = 0
    """Number of learned positions, each a vector of the hidden size."""
    split_tables: tuple[int, ...] = ()
    """Rows of tables of the hidden size that are padded and split over the ranks as a vocabulary is."""
    roberta_tables: tuple[int, ...] = ()
    """Rows of tables that only later releases split so (RoBERTa's positions and token types)."""
    output_bias: bool = False
    output_float32: bool = False
    """The output is stored in 32 bits for every dtype of the model (MiniMax)."""
    embedding_size: int | None = None
    """Width of embedding and output; ``None`` is the hidden size. Projections connect it with the layers."""
    ngrams: NgramTables | None = None
    self_conditioning: int | None = None
    """Width of a gated network for the last step's output, in full on every rank (DiffusionGemma)."""
    whole_embedding: bool = False
    """Every rank holds the whole embedding; an untied output is still split."""


PLAIN_ENDS: Final = ModelEnds()
