"""Routed experts."""

from dataclasses import dataclass
from typing import Final

from service.architecture.layers.feed_forward import DenseFeedForward


@dataclass(frozen=True, slots=True)
class ExpertWeights:
    """What only the model of the weights reads of routed experts."""

    shared_gate: bool = False
    """A learned scalar gate weighs the shared expert (Qwen)."""
    router_bias: bool = False
    media_bias: bool = False
    """The router has a second bias, for the tokens of images (DeepSeek V4)."""
    expert_bias: bool = False
    router_float32: bool = False
    """The router's matrix is stored in 32 bits."""
    router_computes_float32: bool = False
    """It is stored so where no kernel computes in 32 bits with a matrix of 16 (Nemotron-H)."""
    gated: bool = True
    """Experts, routed and shared, gate their first projection."""
    sharded: bool = False
    """Tensor parallel ranks hold whole experts, whatever the flags say (Moondream 3)."""
    zero_experts: int = 0
    """Rows of the router that belong to no expert (LongCat)."""
    projections: tuple[str, ...] = ("gate_proj", "up_proj")
    """Names of an expert's first projections in the checkpoint."""
    weighs_inputs: bool = False
    """A token's inputs to an expert are multiplied by its score, not its outputs (Llama 4)."""
    plain_softmax: bool = False
    """A token's scores are a softmax over all experts, not divided by the sum of those taken."""
    other_gate: bool = False
    """The function of the gate is not SiLU (gpt-oss, Gemma 4, MiniMax M3)."""
    hashed_tokens: int = 0
    """Rows of a table that says which experts take each token of the vocabulary (DeepSeek V4)."""
    banks: int = 0
    """Banks of routed experts, each shared by several layers; 0 where each layer has its own experts."""
    latent_size: int | None = None
    """Width of the vectors that routed experts read, where it is not the hidden size (Nemotron 3)."""
    latent_norms: int = 0
    """Norms of those vectors: after the experts (Kimi K3), or before and after (Muse Spark)."""
    least_width: int = 0
    """Least width of a split expert on each rank, in releases that round it up (Kimi)."""


PLAIN_EXPERTS: Final = ExpertWeights()


@dataclass(frozen=True, slots=True)
class MixtureOfExperts:
    """Routed experts and the networks beside them in the same layer: numbers and widths."""

    num_experts: int
    experts_per_token: int
    intermediate_size: int
    shared_intermediate_size: int = 0
    """Width of all shared experts together; 0 without any."""
    parallel_dense: DenseFeedForward | None = None
    """A dense network that runs beside the experts (Gemma 4)."""
    clamped: bool = False
    """The gate's output is clamped (DeepSeek V4)."""
    weights: ExpertWeights = PLAIN_EXPERTS
