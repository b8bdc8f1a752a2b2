"""Mixers that keep a state of fixed size per sequence, whatever its length."""

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
    """Delta attention with a decay per channel (Kimi Linear): queries, keys and values of one size."""

    num_heads: int
    head_dim: int
    conv_kernel: int
    full_rank: bool = False
    """Decay and gate are projected at once, not through a vector as small as a head (Ling 3)."""
    exports_states: bool = False
    """Kernels that keep a state in the middle of a prompt take it: its gate is bounded (GLM-5 Next)."""


@dataclass(frozen=True, slots=True)
class KimiK3DeltaAttention:
    """The same with a gate of full rank, on kernels of its own (Kimi K3)."""

    num_heads: int
    head_dim: int
    conv_kernel: int
    bounded_gate: bool


@dataclass(frozen=True, slots=True)
class Mamba:
    """Selective state space of the first kind (Jamba, Falcon Mamba): a small vector per channel."""

    intermediate_size: int
    state_size: int
    conv_kernel: int
    time_step_rank: int
    conv_bias: bool = True
    projection_bias: bool = False
    inner_norms: bool = False
    """The time step and both state projections are normalized, with weights of their own (Jamba)."""


@dataclass(frozen=True, slots=True)
class Mamba2:
    """Selective state space of the second kind: a matrix per head, with keys shared by groups of heads."""

    num_heads: int
    head_dim: int
    num_groups: int
    state_size: int
    conv_kernel: int
    intermediate_size: int
    """Channels; ``num_heads * head_dim`` where the config is consistent."""
    conv_bias: bool = True
    projection_bias: bool = False
    gated_norm: bool = True
    """The output norm has weights (Falcon-H1 can go without)."""
    time_step_rank: int | None = None
    """Keys and time steps come of the convolved channels, through this rank and with norms (PLaMo 2)."""


@dataclass(frozen=True, slots=True)
class ShortConvolution:
    """A gated convolution over the last few tokens alone (LFM2)."""

    channels: int
    conv_kernel: int
    bias: bool = False


@dataclass(frozen=True, slots=True)
class NgramConvolution:
    """A convolution with gaps over what the last tokens together look up, whole on each rank (Qwen4 Exp)."""

    channels: int
    """Over all copies of the hidden state."""
    conv_kernel: int
    dilation: int
    """Tokens between two that the convolution looks at."""
    embedding_size: int
    """Width of what is looked up, in a table that is not on the GPU."""


@dataclass(frozen=True, slots=True)
class LinearAttention:
    """Attention without a softmax, as a decaying matrix per head (MiniMax)."""

    num_heads: int
    head_dim: int


@dataclass(frozen=True, slots=True)
class GroupedLinearAttention:
    """The same with an output that is normalized in groups of heads (Ling 2.5)."""

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
"""The kinds as rules name them."""


def state_kind(mixer: Recurrence) -> str:
    """Return what rules call a kind of state."""
    return STATE_KINDS[type(mixer)]
