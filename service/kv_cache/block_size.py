"""Tokens per block: decided before the model is built, or by what its backends prefer."""

from dataclasses import replace
from itertools import product
from math import lcm
from typing import Final

from service.architecture.model import ModelArchitecture
from service.backends.backend import DEFAULT_BLOCK_SIZE, AttentionBackend, Backends
from service.changed import changed
from service.engine_config.engine_config import EngineConfig
from service.engine_config.state_caching import ALIGN
from service.engines.refusal import EngineRefusal, Stage
from service.engines.rules.blocks import BlockInBatch, BlockSizeChoice, HybridBlockSize
from service.kv_cache.alignment import (
    BlockSizes,
    aligned_before_backends,
    aligned_with_skipped,
    aligned_with_states,
    block_sizes_before_backends,
    unaligned,
)

UNDECLARED: Final = (
    "{name} does not tell the engine of its recurrent states, so they have no block size unless "
    "--mamba-block-size gives one."
)


def resolve_block_size(architecture: ModelArchitecture, engine_config: EngineConfig) -> EngineConfig:
    """Return the start with the block size that backends are chosen by, where it is decided before them."""
    rules, mixer = engine_config.rules, architecture.lead_attention
    if rules.blocks.choice is BlockSizeChoice.BEFORE_BACKENDS:
        size = block_sizes_before_backends(architecture, engine_config).block_size
        if rules.blocks.aligned_block_in_batch is BlockInBatch.BY_CONFIG:
            check_block_in_batch(size, engine_config, Stage.CONFIG)
        return changed(engine_config, block_size=size)
    forgotten = rules.blocks.hybrid_alignment is HybridBlockSize.FORGOTTEN
    if mixer is None or not architecture.is_hybrid or not forgotten or engine_config.block_size is None:
        return engine_config
    # When backends are chosen, the engine knows the aligned size only if the user gave one.
    return changed(
        engine_config, block_size=aligned_before_backends(architecture, mixer, engine_config).block_size
    )


def check_block_in_batch(block_size: int, engine_config: EngineConfig, stage: Stage) -> None:
    """Refuse blocks that no batch fills where states are stored in mode ``align``.

    Raises:
        EngineRefusal: at the given stage.
    """
    if engine_config.mamba_cache_mode != ALIGN or block_size <= engine_config.max_num_batched_tokens:
        return
    prefix, kind = ("VllmConfig: ", "ValidationError") if stage is Stage.CONFIG else ("", "AssertionError")
    raise EngineRefusal(
        stage,
        f"{prefix}In Mamba cache align mode, block_size ({block_size}) must be <= "
        f"max_num_batched_tokens ({engine_config.max_num_batched_tokens}).",
        type=kind,
    )


def resolve_block_sizes(
    architecture: ModelArchitecture, engine_config: EngineConfig, backends: Backends
) -> BlockSizes:
    """Return the block size and the pages that others are aligned to.

    Raises:
        EngineRefusal: states of which the class does not tell have no block size (stage ``block_size``).
    """
    sizes = _resolved(architecture, engine_config, backends)
    if architecture.states.declared or not architecture.is_recurrent:
        return sizes
    if engine_config.mamba_block_size is None:
        raise EngineRefusal(
            Stage.BLOCK_SIZE,
            "",
            type=engine_config.rules.states.undeclared_failure,
            detail=UNDECLARED.format(name=architecture.class_name),
        )
    return replace(sizes, state_block=engine_config.mamba_block_size)


def _resolved(architecture: ModelArchitecture, engine_config: EngineConfig, backends: Backends) -> BlockSizes:
    """Return the same for a class that tells of its states.

    Source: vLLM 0.18.0 to 0.33.0, Platform.update_block_size_for_backend.
    """
    rules = engine_config.rules
    if rules.blocks.choice is BlockSizeChoice.BEFORE_BACKENDS:
        return block_sizes_before_backends(architecture, engine_config)
    mixer = architecture.lead_attention
    if mixer is None:
        return unaligned(engine_config, engine_config.block_size or DEFAULT_BLOCK_SIZE)
    if architecture.is_hybrid and rules.blocks.hybrid_alignment is HybridBlockSize.FORGOTTEN:
        return aligned_before_backends(architecture, mixer, engine_config)
    distinct = tuple(dict.fromkeys(backends.distinct))
    sizes = BlockSizes(engine_config.block_size or _preferred(distinct, engine_config))
    if architecture.is_hybrid:
        sizes = aligned_with_states(architecture, mixer, engine_config, distinct, sizes.block_size)
    if rules.blocks.skip_layer_alignment and engine_config.kv_cache_dtype_skip_layers:
        sizes = aligned_with_skipped(mixer, engine_config, distinct[0], sizes)
    return sizes


def _preferred(backends: tuple[AttentionBackend, ...], engine_config: EngineConfig) -> int:
    if engine_config.rules.blocks.choice is BlockSizeChoice.FIRST_BACKEND or len(backends) == 1:
        return backends[0].kernel_block_sizes.preferred()
    return _shared(backends)


def _shared(backends: tuple[AttentionBackend, ...]) -> int:
    """Return the smallest block size that every backend accepts.

    Source: vLLM 0.31.0 to 0.33.0, Platform._preferred_block_size_for_backends.
    """

    def accepted(size: int) -> bool:
        return all(backend.kernel_block_sizes.accepts(size) for backend in backends)

    if accepted(DEFAULT_BLOCK_SIZE):
        return DEFAULT_BLOCK_SIZE
    # A common multiple of one size of each suits them all.
    return min(lcm(*units) for units in product(*(b.kernel_block_sizes.units for b in backends)))


def sliding_block_within(
    backend: AttentionBackend, bytes_per_token: int, budget: int | None, *, stretch: bool
) -> int:
    """Return the largest kernel block whose page fits a budget of bytes, or else the smallest.

    With ``stretch`` a kernel that reads any multiple of its block counts by the largest that fits;
    without, by the block alone, and only where it names no fixed size.

    Source: vLLM 0.25.0 and 0.30.0, layers/attention/attention.py _largest_kernel_block_within.
    """
    kernel = backend.spec_block_sizes
    fitting = 0 if budget is None else budget // bytes_per_token
    sizes = (
        (*kernel.fixed, *(max(unit, fitting // unit * unit) for unit in kernel.multiples_of))
        if stretch
        else kernel.fixed or kernel.multiples_of
    )
    return max((size for size in sizes if size <= fitting), default=min(sizes))
