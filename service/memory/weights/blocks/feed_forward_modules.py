"""The modules of a feed-forward network, dense or of experts."""

from typing import assert_never

from service.architecture.layers.decoder_layer import FeedForward
from service.architecture.layers.experts import MixtureOfExperts
from service.architecture.layers.feed_forward import DenseFeedForward, NoFeedForward
from service.memory.shards import Shards
from service.memory.weights.blocks.built import Built
from service.memory.weights.modules import (
    PARTS_OF_GATED,
    Experts,
    Linear,
    Modules,
    PlainModule,
)
from service.units import round_up

FLOAT32_BYTES = 4
INT32_BYTES = 4


def feed_forward_modules(
    network: FeedForward, hidden: int, name: str, shards: Shards, built: Built
) -> Modules:
    """Yield the modules of a layer's network called ``name``."""
    match network:
        case DenseFeedForward():
            whole = network.gates_by_release and not built.split_gates
            return _dense(network, hidden, name, shards, whole_gates=whole)
        case MixtureOfExperts():
            return _experts(network, hidden, name, shards, built)
        case NoFeedForward():
            return iter(())
    assert_never(network)


def _dense(
    network: DenseFeedForward, hidden: int, name: str, shards: Shards, *, whole_gates: bool = False
) -> Modules:
    width = shards.share(network.intermediate_size)
    first = network.intermediate_size if whole_gates else width
    outputs = (first, first) if network.gated else (first,)
    parts = PARTS_OF_GATED if network.gated else ()
    first_name, last_name = network.names
    yield Linear(
        f"{name}.{'gate_up_proj' if network.gated else first_name}",
        hidden,
        outputs,
        parts,
        bias=sum(outputs) if network.bias else 0,
        splits_outputs=shards.splits,
    )
    yield Linear(
        f"{name}.{last_name}",
        width,
        (hidden,),
        bias=hidden if network.bias or network.output_bias else 0,
        input_shards=shards.tensor_parallel_size,
    )


def _expert_width(network: MixtureOfExperts, shards: Shards, built: Built) -> int:
    if network.weights.sharded:
        return network.intermediate_size
    width = shards.expert_width(network.intermediate_size)
    splits = shards.tensor_parallel_size > 1 and shards.expert_parallel_size == 1
    return max(width, network.weights.least_width) if splits and built.widened_experts else width


def _experts(network: MixtureOfExperts, hidden: int, name: str, shards: Shards, built: Built) -> Modules:
    weights = network.weights
    if not weights.banks:
        yield from routed_experts(network, hidden, name, shards, built)
    if network.shared_intermediate_size:
        unit = shards.tensor_parallel_size * built.shared_expert_block
        width = round_up(network.shared_intermediate_size, unit)
        shared = DenseFeedForward(width, gated=weights.gated)
        suffix = "shared_expert" if weights.shared_gate else "shared_experts"
        yield from _dense(shared, hidden, f"{name}.{suffix}", shards)
    if weights.shared_gate:
        yield PlainModule(hidden)
    if network.parallel_dense is not None:
        yield from _beside(network.parallel_dense, network.num_experts, hidden, name, shards)


def routed_experts(
    network: MixtureOfExperts, hidden: int, name: str, shards: Shards, built: Built
) -> Modules:
    """Yield a router and its experts, with projections to and from them where their vectors are narrower."""
    weights = network.weights
    choices = network.num_experts + weights.zero_experts
    wide = weights.router_float32 or (weights.router_computes_float32 and built.float32_routers)
    if built.quantized_routers:
        yield Linear(f"{name}.gate", hidden, (choices,), router=True)
    else:
        yield PlainModule(choices * hidden, FLOAT32_BYTES if wide else None, outputs=choices)
    if weights.router_bias:
        yield PlainModule(choices, None if weights.expert_bias else FLOAT32_BYTES)
    if weights.media_bias:
        yield PlainModule(choices, FLOAT32_BYTES)
    yield PlainModule(weights.hashed_tokens * network.experts_per_token, INT32_BYTES)
    # Gemma 4 has its experts in a module of their own, beside the dense network.
    routed = name if network.parallel_dense is None else f"{name.removesuffix('.mlp')}.moe"
    yield Experts(
        f"{routed}.experts",
        shards.share(network.num_experts) if weights.sharded else shards.experts(network.num_experts),
        weights.latent_size or hidden,
        _expert_width(network, shards, built),
        width_shards=1 if weights.sharded else shards.expert_width_shards,
        bias=weights.expert_bias,
        gated=weights.gated,
        weighs_inputs=weights.weighs_inputs,
        plain_softmax=weights.plain_softmax,
        other_gate=weights.other_gate,
        parts=weights.projections,
    )
    if weights.latent_size is not None:
        yield Linear(f"{name}.fc1_latent_proj", hidden, (weights.latent_size,))
        yield Linear(f"{name}.fc2_latent_proj", weights.latent_size, (hidden,))
        yield PlainModule(weights.latent_norms * weights.latent_size)


def _beside(dense: DenseFeedForward, experts: int, hidden: int, name: str, shards: Shards) -> Modules:
    """Yield a dense network that runs beside the experts, with its norms and scales.

    Source: vLLM 0.24.0, Gemma4DecoderLayer, Gemma4Router and Gemma4MoE.
    """
    yield from _dense(dense, hidden, name, shards)
    yield PlainModule(3 * hidden + hidden + experts)
