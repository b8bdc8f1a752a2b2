"""Drafts: layers that guess tokens ahead, from the model's own checkpoint or from one of their own."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from service.architecture.context import ContextLength
    from service.architecture.layers import DecoderLayer
    from service.architecture.model import ModelArchitecture
    from service.architecture.quantization import Quantization
    from service.architecture.rotary import RotaryTable


class DraftEmbedding(StrEnum):
    """Whose input embedding a draft reads once it is loaded."""

    MODEL = "model"
    """The model's, unless pipeline stages part them (vLLM 0.11.1 to 0.33.0, ``_maybe_share_embeddings``)."""
    AS_STORED = "as_stored"
    """The model's where the draft's checkpoint stores none, or an equal one: its config does not tell."""


@dataclass(frozen=True, slots=True)
class Joint:
    """A projection that joins token embeddings and hidden states."""

    name: str
    inputs: int
    """Elements of all vectors that are joined."""
    split: bool = False
    """Every tensor-parallel rank has a part of the outputs, which are the draft's hidden size."""
    quantizable: bool = True


@dataclass(frozen=True, slots=True)
class Draft:
    """What guesses tokens. Its layers are built after the model's own, on the last pipeline stage."""

    class_name: str
    """The engine's class for it."""
    layers: tuple[DecoderLayer, ...]
    hidden_size: int
    vocab_size: int
    prefix: str = "layers"
    """Its layers in the names of modules, before their numbers."""
    first_number: int = 0
    predicts: int | None = None
    """Tokens that it guesses in one pass; more must be a multiple (``n_predict``)."""
    modules: int = 1
    """Modules that guess one token each (``num_nextn_predict_layers``)."""
    embedding: DraftEmbedding = DraftEmbedding.MODEL
    joints: tuple[Joint, ...] = ()
    norm_weights: int = 0
    """Normalization weights beside the layers' own, in elements."""
    heads: int = 0
    """Outputs of its own, one per module, which later releases replace by the model's."""
    output_rows: int = 0
    """Rows of an output that stays its own; 0 where it is the model's."""
    mapped_rows: int = 0
    """Entries of a table from its own tokens to the model's, 64 bits each."""
    widened: bool = False
    """The first layer's queries, keys and values see embeddings beside hidden states (EAGLE 3)."""
    unquantized: tuple[str, ...] = ()
    """Last names of its modules that are never quantized."""
    stored_as_model: bool = True
    """Whether its weights are quantized as the model's are."""
    quantization: Quantization | None = None
    """How they are quantized where they stand alone."""
    rotary_tables: tuple[RotaryTable, ...] = ()
    context: ContextLength | None = None
    whole: ModelArchitecture | None = None
    """The model that drafts, where it is a whole one with embedding and output of its own."""

    @property
    def number_of_heads(self) -> int:
        """Query heads of its first attention layer; 0 without one."""
        return next((getattr(layer.mixer, "num_heads", 0) for layer in self.layers), 0)


@dataclass(frozen=True, slots=True)
class DraftCheckpoint:
    """What the config of a draft of its own says, for each method that could use it."""

    id: str
    model_type: str
    whole: ModelArchitecture | None = None
    eagle: Draft | None = None
    eagle3: Draft | None = None
    unread: str = ""
    """Why some of these could not be read."""


@dataclass(frozen=True, slots=True)
class DraftSources:
    """The drafts that a start could use."""

    own: Draft | None = None
    """Prediction layers in the model's own checkpoint (MTP)."""
    unread: str = ""
    """Why there are none, where that is known."""
    checkpoint: DraftCheckpoint | None = None
    """The draft that ``speculative_config.model`` names."""


NO_DRAFTS: Final = DraftSources()
