"""Inputs of a draft: the embedding that it reads, and the projections that join it with hidden states."""

from dataclasses import dataclass
from enum import StrEnum


class DraftEmbedding(StrEnum):
    """The input embedding that a draft reads after loading."""

    MODEL = "model"
    """The model's, unless it is on another pipeline stage.

    Source: vLLM 0.11.1 to 0.33.0, ``_maybe_share_embeddings``.
    """
    AS_STORED = "as_stored"
    """The model's where the draft's checkpoint has none or an equal one, which its config does not say."""


@dataclass(frozen=True, slots=True)
class Joint:
    """A projection that joins token embeddings and hidden states."""

    name: str
    inputs: int
    """Elements of all joined vectors together."""
    split: bool = False
    """Each tensor parallel rank has a share of the outputs, which are the draft's hidden size."""
    quantizable: bool = True


@dataclass(frozen=True, slots=True)
class MarkovHead:
    """Two tables by which each token of a block sways the next, never quantized (DSpark)."""

    rank: int
    """Elements of one token in either table."""
    rows: int
    """Tokens of the model."""
    outputs: int
    """Draft tokens of one block."""
    tells_confidence: bool
    """Whether a 32-bit vector gives the confidence of each draft token."""
    block: int | None = None
    """Tokens of one block, where the config tells."""
    stacks_keys: bool = True
    """Whether the draft may store the key projections of its layers a second time (DeepSeek V4)."""
