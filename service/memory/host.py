"""The host's memory that flags ask for: offloaded weights and blocks, adapters, processed images."""

from dataclasses import dataclass
from typing import Final, Self

from service.engines.flags import ServeFlags
from service.memory.budget_types import Basis, Estimate, HostDemand
from service.memory.interval import around, exact, total
from service.units import GIB

MEDIA_CACHE_GIB: Final = 4
"""vLLM 0.10.2 to 0.32.0, MultiModalConfig.mm_processor_cache_gb."""
PINNED: Final = 2
"""Pinned memory is rounded up to a power of two: less than twice as much (PyTorch's host allocator)."""
NOTHING: Final = exact(0, Basis.COMPUTED, "no flag asks for it")
BLOCKS_SOURCE: Final = "kv_offloading_size; vLLM 0.13.0 and 0.32.0, VllmConfig._post_init_kv_transfer_config"
BLOCKS_ELSEWHERE: Final = "vLLM 0.24.0 to 0.32.0: the LMCache server's own setting decides, not this flag"
MEDIA_SOURCE: Final = (
    "at most mm_processor_cache_gb for each API server and each data parallel rank; vLLM 0.11.0 and 0.32.0, "
    "MultiModalConfig.mm_processor_cache_gb"
)
ASLEEP_SOURCE: Final = (
    "at most the weights of all ranks, while the engine sleeps at level 1; vLLM 0.11.0 and 0.32.0, "
    "device_allocator/cumem.py CuMemAllocator.sleep"
)
TABLES_SOURCE: Final = (
    "tables of n-grams, which pages of a power of two may double and each data parallel rank may have alone; "
    "vLLM 0.30.0 to 0.33.0, EngramConfig and common/engram.py"
)
ADAPTERS_SOURCE: Final = (
    "at most max_cpu_loras whole adapters of the largest rank in each process; vLLM 0.11.0 and 0.32.0, "
    "lora/model_manager.py LoRAModelManager.capacity"
)


@dataclass(frozen=True, slots=True)
class HostFlags:
    """What flags ask of the host's memory."""

    ranks: int = 1
    """Tensor parallel ranks times pipeline stages of one replica."""
    stages: int = 1
    replicas: int = 1
    """Data parallel ranks."""
    api_servers: int = 1
    block_bytes: int | None = None
    """Bytes for cached blocks of all ranks of a replica; ``None``: another program decides."""
    media_cache_bytes: int = 0
    """Bytes of processed images, videos and sound in one process."""
    stored_adapters: int = 0
    """Adapters that each process may store."""

    @classmethod
    def of(cls, flags: ServeFlags, *, offloads: bool, sizes_blocks: bool, media: bool) -> Self:
        """Read the flags.

        ``offloads``: blocks are offloaded. ``sizes_blocks``: the flag sets their bytes, not another program.
        ``media``: the model takes images, videos or sound.
        """
        cache = MEDIA_CACHE_GIB if flags.mm_processor_cache_gb is None else flags.mm_processor_cache_gb
        blocks = int((flags.kv_offloading_size or 0) * GIB) if offloads else 0
        return cls(
            ranks=(flags.tensor_parallel_size or 1) * flags.pipeline_parallel_size,
            stages=flags.pipeline_parallel_size,
            replicas=flags.data_parallel_size,
            api_servers=flags.api_server_count or flags.data_parallel_size,
            block_bytes=blocks if sizes_blocks or not offloads else None,
            media_cache_bytes=int(cache * GIB) if media and not flags.language_model_only else 0,
            stored_adapters=(flags.max_cpu_loras or flags.max_loras or 1) if flags.enable_lora else 0,
        )


NO_FLAGS: Final = HostFlags()


def host_memory(
    flags: HostFlags,
    rank_weights: Estimate | None,
    adapter_bytes: int,
    asleep: Estimate | None = None,
    table_bytes: int = 0,
) -> HostDemand:
    """Return the host's memory that a start asks for.

    ``rank_weights``: bytes that the rank with the most offloaded weights has in the host's memory.
    ``adapter_bytes``: bytes of one whole adapter of the largest rank. ``asleep``: bytes of the weights of the
    rank that has the most, where the engine may sleep. ``table_bytes``: bytes of tables of n-grams that GPUs
    do not have.
    """
    weights, blocks = _weights(flags, rank_weights), _blocks(flags)
    if table_bytes:
        tables = around(
            table_bytes, table_bytes, PINNED * table_bytes * flags.replicas, Basis.COMPUTED, TABLES_SOURCE
        )
        weights = total((weights, tables), tables.source) if rank_weights else tables
    stored = flags.stored_adapters * adapter_bytes * flags.ranks * flags.replicas
    adapters = around(stored, 0, stored, Basis.COMPUTED, ADAPTERS_SOURCE) if stored else NOTHING
    cached = flags.media_cache_bytes * (flags.api_servers + flags.replicas)
    media = around(cached, 0, cached, Basis.COMPUTED, MEDIA_SOURCE) if cached else NOTHING
    kept = 0 if asleep is None else asleep.high * flags.ranks * flags.replicas
    sleeping = around(kept, 0, kept, Basis.COMPUTED, ASLEEP_SOURCE) if kept else NOTHING
    parts = (weights, blocks, adapters, media, sleeping)
    return HostDemand(*parts, total(parts, "sum of the terms"))


def _weights(flags: HostFlags, rank_weights: Estimate | None) -> Estimate:
    """Return the offloaded weights of all ranks. Stages differ: others have at most those of the largest."""
    if rank_weights is None:
        return NOTHING
    most = flags.ranks * flags.replicas
    least = most // flags.stages
    source = f"all ranks; {rank_weights.source}"
    high, low = rank_weights.high * most, rank_weights.low * least
    return around(rank_weights.bytes * most, low, high, rank_weights.basis, source)


def _blocks(flags: HostFlags) -> Estimate:
    if flags.block_bytes is None:
        return exact(0, Basis.ASSUMED, BLOCKS_ELSEWHERE)
    size = flags.block_bytes * flags.replicas
    return exact(size, Basis.GIVEN, BLOCKS_SOURCE) if size else NOTHING
