"""Block and page sizes that recurrent states, skipped layers and MLA kernels need."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from math import lcm
from typing import Final

from service.architecture.layers.attention import Attention
from service.architecture.layers.decoder_layer import TokenMixer
from service.architecture.layers.mla import MultiHeadLatentAttention
from service.architecture.model import ModelArchitecture
from service.backends.backend import DEFAULT_BLOCK_SIZE, AttentionBackend
from service.engine_config.engine_config import EngineConfig
from service.engine_config.indexer_keys import DATA_CENTER_BLACKWELL
from service.engine_config.state_caching import ALL, NONE
from service.engines.rules.blocks import HybridBlockSize
from service.kv_cache.formats import (
    CacheFormat,
    Packing,
    cache_format,
    of_heads,
    sized_by,
)
from service.kv_cache.recurrent_states import checkpoint_alignment, largest_state
from service.units import ceil_div

SLOTS: Final = "fp8_ds_mla"


@dataclass(frozen=True, slots=True)
class BlockSizes:
    """The engine's block and page sizes after those of backends and states are applied."""

    block_size: int
    """Tokens of one block of an attention layer."""
    state_page: int | None = None
    """Bytes to which recurrent states are padded."""
    state_block: int | None = None
    """Tokens between two states; ``None`` where only the last of a request is stored."""
    skipped_page: int | None = None
    """Bytes to which layers are padded whose cache is not quantized."""


def kv_heads_per_rank(mixer: Attention, engine_config: EngineConfig) -> int:
    """Return the key/value heads on one rank; each rank has at least one."""
    return max(1, mixer.num_kv_heads // engine_config.tensor_parallel_size)


def gpu_alignment_inputs(engine_config: EngineConfig) -> tuple[bool, ...]:
    """Return what a layout depends on of the GPU: which of the release's cases apply to its capability."""
    rules, capability = engine_config.rules, str(engine_config.compute_capability)
    major = engine_config.compute_capability.major
    return (
        *(capability in case.capabilities for case in rules.blocks.mla_sizes),
        *(capability in case.capabilities for case in rules.blocks.hybrid_kernel_blocks),
        *(capability in case.capabilities for case in rules.states.checkpoints),
        *(major == case.capability_major for case in rules.specs.row_aligned_blocks),
        major == DATA_CENTER_BLACKWELL,
    )


def block_sizes_before_backends(architecture: ModelArchitecture, engine_config: EngineConfig) -> BlockSizes:
    """Return the sizes that the configuration decides before the model is built.

    Source: vLLM 0.10.2 to 0.17.1, HybridAttentionMambaModelConfig, then
    CudaPlatformBase.check_and_update_config.
    """
    sizes = unaligned(engine_config, engine_config.block_size or DEFAULT_BLOCK_SIZE)
    mixer = architecture.lead_attention
    if mixer is not None and architecture.is_hybrid:
        sizes = aligned_before_backends(architecture, mixer, engine_config)
    if not isinstance(mixer, MultiHeadLatentAttention):
        return sizes
    capability = str(engine_config.compute_capability)
    for case in engine_config.rules.blocks.mla_sizes:
        if case.applies(
            engine_config.attention_backend,
            capability,
            mixer.qk_nope_head_dim,
            sparse=mixer.indexer is not None,
        ):
            return replace(sizes, block_size=case.impose(sizes.block_size))
    return sizes


def unaligned(engine_config: EngineConfig, block_size: int) -> BlockSizes:
    """Return the sizes of a model without attention beside its states, or without states.

    Source: vLLM 0.15.0 to 0.33.0, MambaModelConfig: where prefixes are cached, states are stored per block.
    """
    stored = engine_config.mamba_cache_mode != NONE and engine_config.rules.blocks.state_block_is_block
    return BlockSizes(
        block_size, state_block=(engine_config.mamba_block_size or block_size) if stored else None
    )


def aligned_before_backends(
    architecture: ModelArchitecture, mixer: TokenMixer, engine_config: EngineConfig
) -> BlockSizes:
    """Align by plain bytes, before any backend is chosen.

    Source: vLLM 0.10.2 to 0.19.1, HybridAttentionMambaModelConfig; 0.18.0 and 0.19.1,
    update_block_size_for_backend.
    """
    rules = engine_config.rules
    kernel = next(
        case.block
        for case in rules.blocks.hybrid_kernel_blocks
        if case.applies(
            mla=architecture.is_mla,
            head_size=mixer.head_size,
            capability=str(engine_config.compute_capability),
            requested=engine_config.attention_backend,
        )
    )
    per_token = _bytes_per_token(mixer, engine_config, rules.blocks.hybrid_alignment_packing)
    state = largest_state(architecture, engine_config)
    held = _multiple_that_holds(state, per_token, kernel, architecture, engine_config)
    aligned = max(engine_config.block_size or DEFAULT_BLOCK_SIZE, held)
    page = aligned * per_token
    forgotten = (
        rules.blocks.hybrid_alignment is HybridBlockSize.FORGOTTEN and engine_config.block_size is None
    )
    return BlockSizes(
        block_size=DEFAULT_BLOCK_SIZE if forgotten else aligned,
        state_page=None if page == state else page,
        state_block=_state_block(aligned, held, engine_config),
    )


def _state_block(aligned: int, held: int, engine_config: EngineConfig) -> int | None:
    match engine_config.mamba_cache_mode:
        case "all":
            return held
        case "align":
            return aligned
        case _:
            return None


def aligned_with_states(
    architecture: ModelArchitecture,
    mixer: TokenMixer,
    engine_config: EngineConfig,
    backends: tuple[AttentionBackend, ...],
    block_size: int,
) -> BlockSizes:
    """Grow the block until its page holds a state: vLLM 0.20.0 to 0.33.0, _align_hybrid_block_size."""
    rules = engine_config.rules
    # A layer of sparse MLA may have turned the cache to its own format by now.
    turned = next((backend.cache_dtype for backend in backends if backend.cache_dtype == SLOTS), None)
    stored = engine_config if turned is None else replace(engine_config, kv_cache_dtype=turned)
    per_token = _bytes_per_token(mixer, stored, rules.blocks.hybrid_alignment_packing)
    state = largest_state(architecture, engine_config)
    kernel = max(backends[0].kernel_block_sizes.minimum, block_size)
    if architecture.is_mla:
        kernel = max(kernel, rules.blocks.mla_hybrid_block)
    kernel = lcm(kernel, checkpoint_alignment(architecture, engine_config))
    held = aligned = _multiple_that_holds(state, per_token, kernel, architecture, engine_config)
    if rules.blocks.hybrid_block_suits_all_backends:
        step = lcm(*(backend.kernel_block_sizes.minimum for backend in backends))
        aligned = step * ceil_div(aligned, step)
    block_size = max(block_size, aligned)
    page = block_size * per_token
    return BlockSizes(
        block_size,
        None if page == state else page,
        state_block=_state_block(block_size, held, engine_config),
    )


def _multiple_that_holds(
    state: int, per_token: int, kernel: int, architecture: ModelArchitecture, engine_config: EngineConfig
) -> int:
    """Return the least multiple of a kernel's block whose page holds a state.

    Where every block's state is stored, blocks are whole chunks of the recurrence too.
    """
    if engine_config.mamba_cache_mode != ALL:
        return kernel * ceil_div(state, kernel * per_token)
    chunk = lcm(engine_config.mamba_block_size or architecture.states.chunk, kernel)
    return chunk * ceil_div(ceil_div(state, per_token), chunk)


def _bytes_per_token(mixer: TokenMixer, engine_config: EngineConfig, packing: Collection[str]) -> int:
    """Return the bytes of one token in an attention layer as alignment counts them."""
    exact = cache_format(engine_config.kv_cache_dtype, engine_config.dtype)
    counted = sized_by(exact, frozenset(packing))
    size = _token_bytes(mixer, engine_config, counted)
    if exact.packing is Packing.TURBOQUANT and counted is exact and engine_config.kv_cache_dtype_skip_layers:
        return lcm(size, _token_bytes(mixer, engine_config, cache_format("auto", engine_config.dtype)))
    return size


def _token_bytes(mixer: TokenMixer, engine_config: EngineConfig, counted: CacheFormat) -> int:
    """Return the bytes of one token by the model's own head size, which stands for values too."""
    if not isinstance(mixer, Attention):
        return of_heads(counted).head_bytes(mixer.head_size, 0)
    per_head = of_heads(counted).head_bytes(mixer.head_size, mixer.head_size)
    return kv_heads_per_rank(mixer, engine_config) * per_head


def aligned_with_skipped(
    mixer: TokenMixer, engine_config: EngineConfig, first: AttentionBackend, sizes: BlockSizes
) -> BlockSizes:
    """Grow the block until a quantized page holds one of a skipped layer.

    Source: vLLM 0.25.0 to 0.33.0, Platform._align_heterogeneous_kv_block_size.
    """
    exact = cache_format(engine_config.kv_cache_dtype, engine_config.dtype)
    packers = engine_config.rules.blocks.skip_alignment_packing.items()
    known = frozenset(packing for packing, packer in packers if packer in {"", first.name})
    primary = _token_bytes(mixer, engine_config, sized_by(exact, known))
    skipped = _token_bytes(mixer, engine_config, cache_format("auto", engine_config.dtype))
    if skipped == primary:
        return sizes
    kernel = first.kernel_block_sizes.minimum
    step = max(kernel, sizes.block_size)
    required = max(skipped * kernel, sizes.state_page or 0)
    block_size = max(sizes.block_size, step * ceil_div(required, step * primary))
    page = block_size * primary
    state_page = None if sizes.state_page is None else page
    return replace(sizes, block_size=block_size, state_page=state_page, skipped_page=page)
