"""The modules of one rank: linear layers, experts, embeddings and small weights.

Sizes are those of one tensor parallel rank; whoever yields a module divides as the engine's layers do.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from service.units import ceil_div, round_up

PARTS_OF_QKV: Final = ("q_proj", "k_proj", "v_proj")
PARTS_OF_GATED: Final = ("gate_proj", "up_proj")
"""What checkpoints call the projections of which the engine makes one matrix."""
VOCABULARY_PADDING: Final = 64
"""vLLM 0.32.0, vocab_parallel_embedding.DEFAULT_VOCAB_PADDING_SIZE."""


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


@dataclass(frozen=True, slots=True)
class Shards:
    """The parallel sizes that decide which part of each module one rank has."""

    tensor_parallel_size: int = 1
    expert_parallel_size: int = 1
    """1 splits every expert over the ranks; with more, each rank has whole experts."""
    data_parallel_size: int = 1
    """Replicas of attention; every expert is split over the ranks of all replicas."""
    spare_experts: int = 0
    """Experts that all ranks together store beside the model's own."""

    @property
    def splits(self) -> bool:
        """Whether tensor parallelism splits modules at all."""
        return self.tensor_parallel_size > 1

    def share(self, size: int) -> int:
        """Return this rank's part of a dimension that is split."""
        return ceil_div(size, self.tensor_parallel_size)

    def kv_heads(self, heads: int) -> int:
        """Return this rank's key/value heads, at least one: fewer heads than ranks are replicated."""
        return max(1, heads // self.tensor_parallel_size)

    def vocabulary(self, rows: int) -> int:
        """Return this rank's rows of a vocabulary."""
        return self.share(round_up(rows, VOCABULARY_PADDING))

    def experts(self, count: int) -> int:
        """Return the experts on the fullest rank.

        Source: vLLM 0.11.0 and 0.32.0, FusedMoE: ``global_num_experts`` counts redundant ones.
        """
        return ceil_div(count + self.spare_experts, self.expert_parallel_size)

    def expert_width(self, width: int) -> int:
        """Return the width of one expert on this rank.

        Source: vLLM 0.11.0 to 0.33.0, FusedMoEParallelConfig.make: without expert parallelism the experts are
        split over the tensor parallel ranks of all data parallel ones.
        """
        return ceil_div(width, self.expert_width_shards)

    @property
    def expert_width_shards(self) -> int:
        """The ranks that the width of one expert is split over."""
        whole = self.expert_parallel_size > 1
        return 1 if whole else self.tensor_parallel_size * self.data_parallel_size
