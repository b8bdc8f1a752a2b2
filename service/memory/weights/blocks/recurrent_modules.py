"""The modules of recurrent layers: vLLM 0.32.0, model_executor/layers/mamba and kda.py."""

from typing import assert_never

from service.architecture.layers.recurrence import (
    GatedDeltaNet,
    GroupedLinearAttention,
    KimiDeltaAttention,
    KimiK3DeltaAttention,
    LinearAttention,
    Mamba,
    Mamba2,
    NgramConvolution,
    Recurrence,
    ShortConvolution,
)
from service.memory.shards import Shards
from service.memory.weights.modules import (
    Linear,
    Modules,
    PlainModule,
)
from service.units import round_up

FLOAT32_BYTES = 4
PROJECTION_UNIT = 16
"""vLLM 0.32.0, KimiK3DeltaAttention: the fused projection has a multiple of this many outputs."""


def recurrent_modules(mixer: Recurrence, hidden: int, name: str, shards: Shards) -> Modules:
    """Yield the modules of one mixer called ``name``."""
    match mixer:
        case GatedDeltaNet():
            projected = _separate_delta_net if mixer.separate_projections else _delta_net
            yield from projected(mixer, hidden, name, shards)
        case KimiDeltaAttention():
            yield from _kimi(mixer, hidden, name, shards)
        case KimiK3DeltaAttention():
            yield from _kimi_k3(mixer, hidden, name, shards)
        case Mamba():
            yield from _mamba(mixer, hidden, shards)
        case Mamba2():
            yield from _mamba2(mixer, hidden, name, shards)
        case ShortConvolution():
            yield from _short_convolution(mixer, hidden, name, shards)
        case NgramConvolution():
            yield from _ngram_convolution(mixer, hidden, name)
        case LinearAttention():
            yield from _linear_attention(mixer, hidden, name, shards)
        case GroupedLinearAttention():
            yield from _grouped_linear_attention(mixer, hidden, name, shards)
        case _:
            assert_never(mixer)


def _delta_net(mixer: GatedDeltaNet, hidden: int, name: str, shards: Shards) -> Modules:
    keys = shards.share(mixer.num_key_heads * mixer.key_head_dim)
    values = shards.share(mixer.num_value_heads * mixer.value_head_dim)
    heads = shards.share(mixer.num_value_heads)
    yield PlainModule((2 * keys + values) * mixer.conv_kernel)
    yield Linear(f"{name}.in_proj_qkvz", hidden, (keys, keys, values, values), ("in_proj_qkv", "in_proj_z"))
    yield Linear(f"{name}.in_proj_ba", hidden, (heads, heads), ("in_proj_b", "in_proj_a"))
    yield PlainModule(heads)
    yield PlainModule(heads, FLOAT32_BYTES)
    yield PlainModule(mixer.value_head_dim)
    yield Linear(f"{name}.out_proj", values, (hidden,), input_shards=shards.tensor_parallel_size)


def _separate_delta_net(mixer: GatedDeltaNet, hidden: int, name: str, shards: Shards) -> Modules:
    """Source: vLLM 0.19.0, models/olmo_hybrid.py; 0.33.0, layers/mamba/gdn/olmo_gdn_linear_attn.py."""
    keys = shards.share(mixer.num_key_heads * mixer.key_head_dim)
    values = shards.share(mixer.num_value_heads * mixer.value_head_dim)
    heads = shards.share(mixer.num_value_heads)
    parts = ("q_proj", "k_proj", "v_proj", "g_proj")
    yield PlainModule((2 * keys + values) * mixer.conv_kernel)
    yield Linear(f"{name}.in_proj_qkvg", hidden, (keys, keys, values, values), parts)
    yield Linear(f"{name}.b_proj", hidden, (heads,), splits_outputs=shards.splits)
    yield Linear(f"{name}.a_proj", hidden, (heads,), splits_outputs=shards.splits)
    yield PlainModule(2 * heads + mixer.value_head_dim)
    yield Linear(f"{name}.o_proj", values, (hidden,), input_shards=shards.tensor_parallel_size)


def _kimi(mixer: KimiDeltaAttention, hidden: int, name: str, shards: Shards) -> Modules:
    heads = shards.share(mixer.num_heads)
    width = heads * mixer.head_dim
    yield Linear(f"{name}.qkv_proj", hidden, (width,) * 3, ("q_proj", "k_proj", "v_proj"))
    for part in ("f", "g"):
        yield from _kimi_gate(part, mixer, hidden, width, name)
    yield Linear(f"{name}.b_proj", hidden, (heads,))
    # The decay's bias and logarithm, and the convolutions, are stored in 32 bits.
    yield PlainModule(width + heads, FLOAT32_BYTES)
    yield PlainModule(3 * width * mixer.conv_kernel, FLOAT32_BYTES)
    yield PlainModule(mixer.head_dim)
    yield Linear(f"{name}.o_proj", width, (hidden,), input_shards=shards.tensor_parallel_size)


def _kimi_gate(part: str, mixer: KimiDeltaAttention, hidden: int, width: int, name: str) -> Modules:
    """Yield the projection to a decay or a gate.

    Most models have two narrow matrices, BailingMoeV3KimiDeltaAttention (vLLM 0.33.0) has one.
    """
    if mixer.full_rank:
        yield Linear(f"{name}.{part}_proj", hidden, (width,))
        return
    yield Linear(f"{name}.{part}_a_proj", hidden, (mixer.head_dim,))
    yield Linear(f"{name}.{part}_b_proj", mixer.head_dim, (width,))


def _kimi_k3(mixer: KimiK3DeltaAttention, hidden: int, name: str, shards: Shards) -> Modules:
    """Source: vLLM 0.32.0, models/kimi_k3/nvidia/kda.py KimiK3DeltaAttention."""
    heads = shards.share(mixer.num_heads)
    width = heads * mixer.head_dim
    outputs = 4 * width + mixer.head_dim + heads
    yield Linear(f"{name}.in_proj_qkvgfab", hidden, (round_up(outputs, PROJECTION_UNIT),))
    yield Linear(f"{name}.f_b_proj", mixer.head_dim, (width,))
    yield PlainModule(width + heads + 3 * width * mixer.conv_kernel, FLOAT32_BYTES)
    yield PlainModule(mixer.head_dim)
    yield Linear(f"{name}.o_proj", width, (hidden,), input_shards=shards.tensor_parallel_size)


def _mamba(mixer: Mamba, hidden: int, shards: Shards) -> Modules:
    """Yield a Mamba 1 mixer, which the engine never quantizes."""
    channels = shards.share(mixer.intermediate_size)
    inner = mixer.time_step_rank + 2 * mixer.state_size
    bias = mixer.projection_bias
    yield PlainModule(channels * (mixer.conv_kernel + mixer.conv_bias))
    yield PlainModule(2 * channels * (hidden + bias))
    yield PlainModule(channels * inner)
    yield PlainModule(channels * (mixer.time_step_rank + 1))
    yield PlainModule(channels * mixer.state_size, FLOAT32_BYTES)
    yield PlainModule(channels)
    yield PlainModule(hidden * (channels + bias))
    yield PlainModule(inner if mixer.inner_norms else 0)


def _mamba2(mixer: Mamba2, hidden: int, name: str, shards: Shards) -> Modules:
    if mixer.time_step_rank is not None:
        yield from _projected_mamba2(mixer, mixer.time_step_rank, hidden, name, shards)
        return
    heads, channels = shards.share(mixer.num_heads), shards.share(mixer.intermediate_size)
    # If the number of groups is no multiple of the ranks, each rank has one group.
    ranks = shards.tensor_parallel_size
    groups = shards.share(mixer.num_groups if mixer.num_groups % ranks == 0 else ranks) * mixer.state_size
    outputs = (channels, channels, groups, groups, heads)
    fused = mixer.num_groups % ranks == 0
    yield PlainModule((channels + 2 * groups) * (mixer.conv_kernel + mixer.conv_bias))
    yield Linear(
        f"{name}.in_proj",
        hidden,
        outputs if fused else (sum(outputs),),
        bias=sum(outputs) if mixer.projection_bias else 0,
        splits_outputs=shards.splits and not fused,
    )
    yield PlainModule(heads, FLOAT32_BYTES)
    yield PlainModule(2 * heads)
    yield PlainModule(channels if mixer.gated_norm else 0)
    yield Linear(
        f"{name}.out_proj",
        channels,
        (hidden,),
        bias=hidden if mixer.projection_bias else 0,
        input_shards=shards.tensor_parallel_size,
    )


def _projected_mamba2(mixer: Mamba2, rank: int, hidden: int, name: str, shards: Shards) -> Modules:
    """Source: vLLM 0.19.0, models/plamo2.py Plamo2MambaMixer."""
    heads, channels = shards.share(mixer.num_heads), shards.share(mixer.intermediate_size)
    inner = rank + 2 * mixer.state_size
    yield PlainModule(channels * mixer.conv_kernel)
    yield Linear(f"{name}.in_proj", hidden, (channels, channels))
    yield Linear(f"{name}.bcdt_proj", channels, (inner,))
    yield Linear(f"{name}.dt_proj", rank, (heads,))
    yield PlainModule(heads, FLOAT32_BYTES)
    yield PlainModule(2 * heads + inner)
    yield Linear(f"{name}.out_proj", channels, (hidden,), input_shards=shards.tensor_parallel_size)


def _short_convolution(mixer: ShortConvolution, hidden: int, name: str, shards: Shards) -> Modules:
    channels = shards.share(mixer.channels)
    yield PlainModule(channels * (mixer.conv_kernel + mixer.bias))
    yield Linear(f"{name}.in_proj", hidden, (channels,) * 3, bias=3 * channels if mixer.bias else 0)
    yield Linear(
        f"{name}.out_proj",
        channels,
        (hidden,),
        bias=hidden if mixer.bias else 0,
        input_shards=shards.tensor_parallel_size,
    )


def _ngram_convolution(mixer: NgramConvolution, hidden: int, name: str) -> Modules:
    """Source: vLLM 0.29.0 to 0.33.0, Qwen4ExpPLELayer; its table is in the host's memory."""
    parts = ("key_proj", "value_proj")
    yield Linear(f"{name}.kv_proj", mixer.embedding_size, (mixer.channels, hidden), parts)
    yield PlainModule((3 + mixer.conv_kernel) * mixer.channels)


def _linear_attention(mixer: LinearAttention, hidden: int, name: str, shards: Shards) -> Modules:
    """Source: vLLM 0.19.0, layers/mamba/linear_attn.py MiniMaxText01LinearAttention."""
    width = shards.share(mixer.num_heads) * mixer.head_dim
    yield Linear(f"{name}.qkv_proj", hidden, (3 * width,))
    yield Linear(f"{name}.output_gate", hidden, (width,))
    yield Linear(f"{name}.out_proj", width, (hidden,), input_shards=shards.tensor_parallel_size)
    yield PlainModule(width)


def _grouped_linear_attention(
    mixer: GroupedLinearAttention, hidden: int, name: str, shards: Shards
) -> Modules:
    """Source: vLLM 0.32.0, layers/mamba/linear/bailing_linear_attn.py BailingMoELinearAttention."""
    width = shards.share(mixer.num_heads) * mixer.head_dim
    yield Linear(f"{name}.query_key_value", hidden, (width,) * 3, bias=3 * width if mixer.qkv_bias else 0)
    yield Linear(f"{name}.g_proj", hidden, (width,))
    yield Linear(
        f"{name}.dense",
        width,
        (hidden,),
        bias=hidden if mixer.output_bias else 0,
        input_shards=shards.tensor_parallel_size,
    )
    yield PlainModule(width + (2 * mixer.head_dim if mixer.query_key_norm else 0))
