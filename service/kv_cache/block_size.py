"""Tokens per block: what the backends prefer, and what recurrent states and skipped layers ask for."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import product
from math import lcm
from typing import Final

from service.architecture.layers import Attention, GatedDeltaNet, LatentAttention
from service.architecture.model import ModelArchitecture
from service.backends.assignment import Backends
from service.backends.backend import DEFAULT_BLOCK_SIZE, AttentionBackend
from service.engines.refusal import EngineRefusal, Stage
from service.engines.rules import BlockSizeChoice, HybridBlockSize
from service.kv_cache.formats import (
    MODEL_DTYPE_BYTES,
    CacheFormat,
    Packing,
    cache_format,
    sized_by,
    unpacked,
)
from service.launch.serving import Serving
from service.units import ceil_div

LATENT_HYBRID_BLOCK: Final = 64
"""vLLM 0.19.0, HybridAttentionMambaModelConfig: kernel blocks of MLA beside recurrent layers."""


@dataclass(frozen=True, slots=True)
class BlockSizes:
    """The engine's cache configuration once backends and states had their say."""

    block_size: int
    """Tokens of one block of an attention layer."""
    state_page: int | None = None
    """Bytes to which recurrent states are padded."""
    skipped_page: int | None = None
    """Bytes to which layers kept out of cache quantization are padded."""


def resolve_block_sizes(architecture: ModelArchitecture, serving: Serving, backends: Backends) -> BlockSizes:
    """Return the block size and the pages that others are aligned to.

    Source: vLLM 0.19.0 to 0.32.0, Platform.update_block_size_for_backend.

    Raises:
        EngineRefusal: the backends share no block size (stage ``block_size``).
    """
    distinct = tuple(dict.fromkeys(backends.values()))
    if architecture.is_hybrid and serving.rules.hybrid_block_size is HybridBlockSize.BEFORE_BACKENDS:
        return _aligned_before_backends(architecture, serving)
    sizes = BlockSizes(serving.block_size or _preferred(distinct, serving))
    if architecture.is_hybrid:
        sizes = _aligned_with_states(architecture, serving, distinct, sizes.block_size)
    if serving.rules.skip_layer_alignment and serving.kv_cache_dtype_skip_layers:
        sizes = _aligned_with_skipped(architecture, serving, distinct[0], sizes)
    return sizes


def _preferred(backends: tuple[AttentionBackend, ...], serving: Serving) -> int:
    if serving.rules.block_size_choice is BlockSizeChoice.DEFAULT:
        return DEFAULT_BLOCK_SIZE
    if serving.rules.block_size_choice is BlockSizeChoice.FIRST_BACKEND or len(backends) == 1:
        return backends[0].kernel_block_sizes.preferred()
    return _shared(backends)


def _shared(backends: tuple[AttentionBackend, ...]) -> int:
    """Return the smallest block size that every backend accepts.

    Source: vLLM 0.32.0, Platform._preferred_block_size_for_backends.
    """

    def accepted(size: int) -> bool:
        return all(backend.kernel_block_sizes.accepts(size) for backend in backends)

    if accepted(DEFAULT_BLOCK_SIZE):
        return DEFAULT_BLOCK_SIZE
    candidates = sorted({lcm(*units) for units in product(*(b.kernel_block_sizes.units for b in backends))})
    for candidate in candidates:
        if accepted(candidate):
            return candidate
    raise EngineRefusal(
        Stage.BLOCK_SIZE,
        "The attention backends share no supported KV cache block size ("
        + "; ".join(f"{backend.name}: {list(backend.kernel_block_sizes.units)}" for backend in backends)
        + ").",
    )


def _aligned_before_backends(architecture: ModelArchitecture, serving: Serving) -> BlockSizes:
    """Align by plain bytes; without --block-size the block then falls back to the default.

    Source: vLLM 0.19.0, HybridAttentionMambaModelConfig and update_block_size_for_backend.
    """
    kernel = LATENT_HYBRID_BLOCK if architecture.is_latent else DEFAULT_BLOCK_SIZE
    per_token = _bytes_per_token(architecture, serving, frozenset())
    state = largest_state(architecture, serving)
    aligned = max(serving.block_size or DEFAULT_BLOCK_SIZE, kernel * ceil_div(state, kernel * per_token))
    page = aligned * per_token
    return BlockSizes(
        block_size=aligned if serving.block_size is not None else DEFAULT_BLOCK_SIZE,
        state_page=None if page == state else page,
    )


def _aligned_with_states(
    architecture: ModelArchitecture,
    serving: Serving,
    backends: tuple[AttentionBackend, ...],
    block_size: int,
) -> BlockSizes:
    """Grow the block until its page holds a state: vLLM 0.20.2 to 0.32.0, _align_hybrid_block_size."""
    rules = serving.rules
    per_token = _bytes_per_token(architecture, serving, rules.hybrid_alignment_packing)
    state = largest_state(architecture, serving)
    kernel = max(backends[0].kernel_block_sizes.minimum, block_size)
    if architecture.is_latent:
        kernel = max(kernel, rules.latent_hybrid_block)
    aligned = kernel * ceil_div(state, kernel * per_token)
    if rules.block_size_choice is BlockSizeChoice.ALL_BACKENDS:
        step = lcm(*(backend.kernel_block_sizes.minimum for backend in backends))
        aligned = step * ceil_div(aligned, step)
    block_size = max(block_size, aligned)
    page = block_size * per_token
    return BlockSizes(block_size, state_page=None if page == state else page)


def _bytes_per_token(architecture: ModelArchitecture, serving: Serving, packing: Collection[str]) -> int:
    """Return the bytes of one token in an attention layer as alignment counts them."""
    exact = cache_format(serving.kv_cache_dtype, serving.dtype)
    counted = sized_by(exact, frozenset(packing))
    size = _token_bytes(architecture, serving, counted)
    if exact.packing is Packing.TURBOQUANT and counted is exact and serving.kv_cache_dtype_skip_layers:
        return lcm(size, _token_bytes(architecture, serving, cache_format("auto", serving.dtype)))
    return size


def _token_bytes(architecture: ModelArchitecture, serving: Serving, counted: CacheFormat) -> int:
    mixer = architecture.lead_attention
    if isinstance(mixer, LatentAttention):
        return counted.head_bytes(mixer.head_size, 0)
    return kv_heads_per_rank(mixer, serving) * counted.head_bytes(mixer.head_size, mixer.head_size_v)


def kv_heads_per_rank(mixer: Attention, serving: Serving) -> int:
    """Return the key/value heads on one rank; each rank has at least one."""
    return max(1, mixer.num_kv_heads // serving.tensor_parallel_size)


def state_bytes(mixer: GatedDeltaNet, serving: Serving) -> int:
    """Return the bytes of one layer's convolution tail and recurrent matrix on one rank.

    Source: vLLM 0.32.0, MambaStateShapeCalculator.gated_delta_net_state_shape.
    """
    ranks = serving.tensor_parallel_size
    width = 2 * mixer.key_head_dim * mixer.num_key_heads + mixer.value_head_dim * mixer.num_value_heads
    conv = (mixer.conv_kernel - 1) * (width // ranks)
    recurrent = mixer.num_value_heads // ranks * mixer.value_head_dim * mixer.key_head_dim
    return (
        conv * MODEL_DTYPE_BYTES[serving.conv_state_dtype]
        + recurrent * MODEL_DTYPE_BYTES[serving.recurrent_state_dtype]
    )


def largest_state(architecture: ModelArchitecture, serving: Serving) -> int:
    """Return the bytes of the largest recurrent state of the model on one rank."""
    return max(state_bytes(mixer, serving) for _, mixer in architecture.recurrent_layers)


def _aligned_with_skipped(
    architecture: ModelArchitecture, serving: Serving, first: AttentionBackend, sizes: BlockSizes
) -> BlockSizes:
    """Grow the block until a quantized page holds one of a skipped layer.

    Source: vLLM 0.26.0 to 0.32.0, Platform._align_heterogeneous_kv_block_size.
    """
    exact = cache_format(serving.kv_cache_dtype, serving.dtype)
    # The first layer's backend does the packing; a skipped first layer's knows no TurboQuant.
    primary = _token_bytes(
        architecture, serving, unpacked(exact) if exact.packing is Packing.TURBOQUANT else exact
    )
    skipped = _token_bytes(architecture, serving, cache_format("auto", serving.dtype))
    if skipped == primary:
        return sizes
    kernel = first.kernel_block_sizes.minimum
    step = max(kernel, sizes.block_size)
    required = max(skipped * kernel, sizes.state_page or 0)
    block_size = max(sizes.block_size, step * ceil_div(required, step * primary))
    page = block_size * primary
    return BlockSizes(block_size, None if sizes.state_page is None else page, skipped_page=page)


def largest_kernel_block(backend: AttentionBackend, bytes_per_token: int, budget: int) -> int:
    """Return the largest kernel block whose page fits a budget of bytes, or else the smallest.

    Source: vLLM 0.32.0, layers/attention/attention.py _largest_kernel_block_within.
    """
    fitting = budget // bytes_per_token
    sizes: Iterable[int] = (
        *backend.spec_block_sizes.fixed,
        *(max(unit, fitting // unit * unit) for unit in backend.spec_block_sizes.multiples_of),
    )
    return max((size for size in sizes if size <= fitting), default=min(sizes))
