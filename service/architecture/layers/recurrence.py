"""Mixers with a state of fixed size per sequence, independent of its length."""

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class GatedDeltaNet:
    """Gated delta net: a convolution tail and a recurrent matrix per value head."""

    num_key_heads: int
    num_value_heads: int
    key_head_dim: int
    value_head_dim: int
    conv_kernel: int
    separate_projections: bool = False
    """Queries, keys, values and the gate are projected one by one (OLMo hybrid)."""


@dataclass(frozen=True, slots=True)
class KimiDeltaAttention:
    """Delta attention with one decay per channel, and one size for queries, keys and values (Kimi Linear)."""

    num_heads: int
    head_dim: int
    conv_kernel: int
    full_rank: bool = False
    """Decay and gate have full-rank projections, not low-rank ones through a vector of head size (Ling 3)."""
    exports_states: bool = False
    """Its gate is bounded, so kernels that store states inside a prompt support it (GLM-5 Next)."""


@dataclass(frozen=True, slots=True)
class KimiK3DeltaAttention:
    """Kimi delta attention with a full-rank gate, which has its own kernels (Kimi K3)."""

    num_heads: int
    head_dim: int
    conv_kernel: int
    bounded_gate: bool


@dataclass(frozen=True, slots=True)
class Mamba:
    """Mamba 1: one small state vector per channel (Jamba, Falcon Mamba)."""

    intermediate_size: int
    state_size: int
    conv_kernel: int
    time_step_rank: int
    conv_bias: bool = True
    projection_bias: bool = False
    inner_norms: bool = False
    """The time step and both state projections have norms with weights (Jamba)."""


@dataclass(frozen=True, slots=True)
class Mamba2:
    """Mamba 2: one state matrix per head, with keys shared by groups of heads."""

    num_heads: int
    head_dim: int
    num_groups: int
    state_size: int
    conv_kernel: int
    intermediate_size: int
    """Number of channels; ``num_heads * head_dim`` in a consistent config."""
    conv_bias: bool = True
    projection_bias: bool = False
    gated_norm: bool = True
    """The output norm has weights (Falcon-H1 may have none)."""
    time_step_rank: int | None = None
    """Rank of the projection from convolved channels to time steps, with norms (PLaMo 2); or none."""


@dataclass(frozen=True, slots=True)
class ShortConvolution:
    """A gated convolution over the last few tokens (LFM2)."""

    channels: int
    conv_kernel: int
    bias: bool = False
    encodes: bool = False
    """It sees the whole prompt both ways, and keeps no state (vLLM 0.33.0, Lfm2BidirectionalShortConv)."""


@dataclass(frozen=True, slots=True)
class NgramConvolution:
    """A dilated convolution over n-gram embeddings, in full on each rank (Qwen4 Exp)."""

    channels: int
    """Channels of all copies of the hidden state."""
    conv_kernel: int
    dilation: int
    """Distance in tokens between two inputs of the convolution."""
    embedding_size: int
    """Width of the n-gram embeddings, whose table is not on the GPU."""


@dataclass(frozen=True, slots=True)
class LinearAttention:
    """Attention without a softmax: one decaying state matrix per head (MiniMax)."""

    num_heads: int
    head_dim: int


@dataclass(frozen=True, slots=True)
class GroupedLinearAttention:
    """Linear attention whose output is normalized in groups of heads (Ling 2.5)."""

    num_heads: int
    head_dim: int
    norm_groups: int
    qkv_bias: bool = False
    output_bias: bool = False
    query_key_norm: bool = False


Recurrence: TypeAlias = (
    GatedDeltaNet
    | KimiDeltaAttention
    | KimiK3DeltaAttention
    | Mamba
    | Mamba2
    | ShortConvolution
    | NgramConvolution
    | LinearAttention
    | GroupedLinearAttention
)
"""Mixers whose cache is a state."""

STATE_KINDS: dict[type[Recurrence], str] = {
    GatedDeltaNet: "gated_delta_net",
    KimiDeltaAttention: "kimi_delta_attention",
    KimiK3DeltaAttention: "kimi_k3_delta_attention",
    Mamba: "mamba1",
    Mamba2: "mamba2",
    ShortConvolution: "short_convolution",
    NgramConvolution: "ngram_convolution",
    LinearAttention: "linear_attention",
    GroupedLinearAttention: "bailing_linear_attention",
}
"""Name of each type in the rules."""


def state_kind(mixer: Recurrence) -> str:
    """Return the name of a recurrent mixer's type in the rules."""
    return STATE_KINDS[type(mixer)]
