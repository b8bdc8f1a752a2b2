"""Buffers through which tokens are sent to experts on other ranks, beside PyTorch's allocator."""

from typing import Final

from service.architecture.layers.experts import MixtureOfExperts
from service.architecture.model import ModelArchitecture
from service.memory.budget_types import Basis, Estimate
from service.memory.interval import around, exact
from service.units import GIB

DEFAULTS: Final = frozenset({None, "naive", "allgather_reducescatter"})
"""Ways that need no buffers of their own."""
DEEPEP_BYTES: Final = GIB
"""vLLM 0.13.0 and 0.32.0, VLLM_DEEPEP_BUFFER_SIZE_MB: within a node, and once more between nodes."""
CHUNK_TOKENS: Final = 256
"""vLLM 0.13.0 and 0.19.0, VLLM_MOE_DP_CHUNK_SIZE: tokens of a rank in one exchange; later a whole batch."""
MESSAGE_HEADER: Final = 16
"""Bytes before the values of a token that is sent to an expert."""
CHANNELS: Final = 128
"""Values of a token that share a scale of 4 bytes."""
SCALE_BYTES: Final = 4
BUFFERS: Final = 2
"""Even and odd exchanges have buffers of their own."""


def exchange_buffers(architecture: ModelArchitecture, backend: str | None, tokens: int) -> Estimate | None:
    """Return the bytes of a rank's buffers; ``None`` where tokens are not sent, or sent without buffers.

    ``tokens``: of a rank in one exchange.

    Source: vLLM 0.13.0 and 0.32.0, distributed/device_communicators/all2all.py DeepEPHTAll2AllManager and
    DeepEPLLAll2AllManager. Sizes of other backends are not known: they may take up to 4 GiB.
    """
    experts = max(
        (
            layer.feed_forward.num_experts
            for layer in architecture.distinct_layers
            if isinstance(layer.feed_forward, MixtureOfExperts)
        ),
        default=0,
    )
    if backend in DEFAULTS or not experts:
        return None
    source = f"assumed: buffers of --all2all-backend {backend}"
    if backend == "deepep_high_throughput":
        return around(DEEPEP_BYTES, DEEPEP_BYTES, 2 * DEEPEP_BYTES, Basis.ASSUMED, source)
    if backend == "deepep_low_latency":
        size = DEEPEP_BYTES + low_latency_bytes(architecture.hidden_size, experts, tokens)
        return exact(size, Basis.COMPUTED, "buffers of DeepEP, from its layout")
    return around(GIB, 0, 4 * GIB, Basis.ASSUMED, source)


def low_latency_bytes(hidden: int, experts: int, tokens: int) -> int:
    """Return the bytes through which each rank sends to, and receives from, every expert of all ranks.

    Source: DeepEP b306af0 (April 2026), csrc/legacy/config.hpp LowLatencyLayout, without counters of a few
    bytes for each expert.
    """
    sent = MESSAGE_HEADER + 2 * hidden
    returned = 2 * hidden + hidden // CHANNELS * SCALE_BYTES
    return BUFFERS * experts * tokens * (returned + max(sent, returned))
