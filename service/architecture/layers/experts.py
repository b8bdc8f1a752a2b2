"""Routed experts."""

from dataclasses import dataclass

from service.architecture.layers.feed_forward import DenseFeedForward


@dataclass(frozen=True, slots=True)
class MixtureOfExperts:
    """Routed experts, with what accompanies them in the same layer."""

    num_experts: int
    experts_per_token: int
    intermediate_size: int
    shared_intermediate_size: int = 0
    """Width of the always-on experts together; 0 when there are none."""
    shared_gate: bool = False
    """A learned scalar gate weighs the shared expert (Qwen)."""
    router_bias: bool = False
    expert_bias: bool = False
    router_float32: bool = False
    """The router's matrix is kept in 32 bits."""
    router_computes_float32: bool = False
    """It is where no kernel computes in them with a matrix of 16 (Nemotron-H)."""
    parallel_dense: DenseFeedForward | None = None
    """A dense network that runs beside the experts (Gemma 4)."""
    gated: bool = True
    """Experts, routed and shared, gate their first projection."""
    clamped: bool = False
    """What the gate lets through is limited (DeepSeek V4)."""
    sharded: bool = False
    """Whole experts are dealt to tensor parallel ranks, whatever the flags say (Moondream 3)."""
    zero_experts: int = 0
    """Choices of the router that no expert stands behind (LongCat)."""
    banks: int = 0
    """Banks of routed experts that the layers have in common, each for every so many; 0: one per layer."""
    latent_size: int | None = None
    """Width of the vectors that routed experts see, where it is not the hidden size (Nemotron 3)."""
    mla_norms: int = 0
    """Norms of those vectors: on their way back (Kimi K3), or on both (Muse Spark)."""
    least_width: int = 0
    """Width of a split expert on each rank, at least, in releases that round it up (Kimi)."""
