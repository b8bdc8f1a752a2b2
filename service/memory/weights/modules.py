"""The modules of one rank: linear layers, experts, embeddings and small weights.

Sizes are those of one tensor parallel rank; whoever yields a module divides as the engine's layers do.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

PARTS_OF_QKV: Final = ("q_proj", "k_proj", "v_proj")
PARTS_OF_GATED: Final = ("gate_proj", "up_proj")
"""What checkpoints call the projections of which the engine makes one matrix."""


@dataclass(frozen=True, slots=True)
class Linear:
    """A matrix with one output width per projection that the engine fuses into it."""

    name: str
    """The engine's name of the fused module, from ``layers`` (or the tower) on."""
    inputs: int
    outputs: tuple[int, ...]
    parts: tuple[str, ...] = ()
    """Last parts of the names of the checkpoint's projections; empty if the module is not fused."""
    bias: int = 0
    """Elements."""
    input_shards: int = 1
    """Ranks that its inputs are split over."""
    splits_outputs: bool = False
    """Ranks share its outputs, and none is on two of them."""
    quantizable: bool = True
    cast: bool = False
    """It is made of the model's type once it is built: elements of eight bits that are floats do not stay."""
    router: bool = False
    """It chooses the experts of a token, or is as small; quantizing tools leave it alone."""


@dataclass(frozen=True, slots=True)
class Experts:
    """The routed experts of one layer: ``gate`` and ``up`` fused (or ``up`` alone), and ``down``."""

    name: str
    count: int
    """Experts on this rank."""
    hidden_size: int
    intermediate_size: int
    """Width of one expert on this rank."""
    width_shards: int = 1
    """Ranks that each expert's width is split over."""
    bias: bool = False
    gated: bool = True
    weighs_inputs: bool = False
    """Their scores multiply their inputs, which kernels of Marlin do not do in all releases."""
    plain_softmax: bool = False
    """Their scores are a plain softmax, which TRTLLM's kernel for unquantized experts does not compute."""
    other_gate: bool = False
    """Their gate is not SiLU, the one function of a gate that TRTLLM's kernel for unquantized experts has."""
    parts: tuple[str, ...] = ()
    """Last parts of the names of one expert's first projections in the checkpoint."""

    @property
    def first_width(self) -> int:
        """Outputs of one expert's first projection: ``gate`` and ``up`` fused, or ``up`` alone."""
        return (2 if self.gated else 1) * self.intermediate_size

    @property
    def elements(self) -> int:
        """Elements of one expert's matrices."""
        return self.hidden_size * (self.first_width + self.intermediate_size)


@dataclass(frozen=True, slots=True)
class OutputEmbedding:
    """A language model head."""

    rows: int
    hidden_size: int
    tied: bool = False
    """It has the weight of the embedding, and of its own only what belongs to a quantized one."""


@dataclass(frozen=True, slots=True)
class PlainModule:
    """Weights that are never quantized."""

    elements: int
    element_bytes: int | None = None
    """``None``: those of the model's dtype."""
    outputs: int = 0
    """Outputs of a matrix that is a linear layer of the engine; 0 for other weights."""


Module: TypeAlias = Linear | Experts | OutputEmbedding | PlainModule
Modules: TypeAlias = Iterator[Module]
