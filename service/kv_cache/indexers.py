"""Caches of indexers: keys of tokens, of groups and of regions, and the tokens of incomplete ones."""

from dataclasses import replace
from math import gcd
from typing import Final

from service.architecture.layers.sparse_indexers import BlockIndexer, GroupIndexer, Indexer, RegionIndexer
from service.engine_config.engine_config import EngineConfig
from service.engine_config.indexer_keys import FP4, FP8
from service.engines.refusal import EngineRefusal, Stage
from service.kv_cache.alignment import BlockSizes
from service.kv_cache.compressed import BYTES, HALVES, indexer_bytes
from service.kv_cache.specs import AttentionSpec, CacheKind
from service.units import ceil_div, next_power_of_two, round_up

POSITION_AXES: Final = 3
POSITION_HALVES: Final = 4
"""16-bit elements that a position of 64 bits takes: vLLM 0.29.0 to 0.33.0, QSAKeyStateCache."""
RING_ROW: Final = 1024
"""Bytes that a token takes in a ring: vLLM 0.33.0, models/step5/nvidia/csa_tail_ring.py."""
INDEXER_KERNEL_BLOCK: Final = 64
"""vLLM 0.11.0 to 0.33.0, DeepseekV32IndexerBackend.get_supported_kernel_block_sizes."""


def has_fp4_keys(engine_config: EngineConfig) -> bool:
    """Whether the indexer of compressed attention has room for 4-bit keys alone.

    Source: vLLM 0.26.0 (the room of 8-bit keys, of which half is used) and 0.27.0, DeepseekV4Indexer.
    """
    return engine_config.indexer_dtype == FP4 and engine_config.rules.indexers.fp4_halves_keys


def indexed(indexer: Indexer, engine_config: EngineConfig, sizes: BlockSizes) -> AttentionSpec:
    """Return the cache of an indexer: a byte per element and a scale of four per group.

    Source: vLLM 0.11.0 to 0.33.0, model_executor/models/deepseek_v2.py Indexer and DeepseekV32IndexerCache.
    """
    return AttentionSpec(
        kind=CacheKind(engine_config.rules.specs.mla_kind),
        block_size=sizes.block_size,
        num_kv_heads=1,
        head_size=indexer_bytes(indexer),
        head_size_v=0,
        format=BYTES,
    )


def pooled(
    indexer: Indexer, engine_config: EngineConfig, sizes: BlockSizes, own: AttentionSpec
) -> tuple[AttentionSpec, ...]:
    """Return the keys of groups, keys and scores of tokens in incomplete ones, and the layer's own cache.

    Source: vLLM 0.32.0, models/glm5next/common/attention.py Glm5NextIndexerCache and Glm5NextTailCache.

    Raises:
        EngineRefusal: a block is no multiple of the incomplete groups (stage ``block_size``).
    """
    group = indexer.group_size
    ring = group * next_power_of_two(ceil_div(group + engine_config.speculative_tokens, group))
    if sizes.block_size % ring:
        words = (
            f"Glm5NextTailCache: cache_config.block_size ({sizes.block_size}) must be a multiple of the "
            f"tail ring ({ring})"
        )
        raise EngineRefusal(Stage.BLOCK_SIZE, words, type="AssertionError")
    keys = replace(indexed(indexer, engine_config, sizes), tokens_per_state=group)
    if engine_config.rules.specs.padded_rows_align_blocks:
        # Blocks are a whole number of the indexer's own as well.
        page = gcd(INDEXER_KERNEL_BLOCK * group, keys.block_size)
        whole = 1 if page == keys.block_size else page // group * keys.bytes_per_token
        keys = replace(keys, block_alignment=whole)
    tail = AttentionSpec(
        kind=CacheKind.CIRCULAR_BUFFER,
        block_size=ring,
        num_kv_heads=2,
        head_size=indexer.head_dim,
        head_size_v=0,
        format=HALVES,
    )
    return keys, tail, own


def block_indexed(indexer: BlockIndexer, engine_config: EngineConfig, sizes: BlockSizes) -> AttentionSpec:
    """Return the cache of an indexer that selects blocks: one key per token, in 16 bits or in fp8.

    Source: vLLM 0.24.0 to 0.33.0, MiniMaxM3IndexerCache.get_kv_cache_spec.
    """
    return AttentionSpec(
        kind=CacheKind(engine_config.rules.specs.mla_kind),
        block_size=sizes.block_size,
        num_kv_heads=1,
        head_size=indexer.head_dim,
        head_size_v=0,
        format=BYTES if engine_config.indexer_dtype in FP8 else HALVES,
    )


def group_indexed(
    indexer: GroupIndexer, engine_config: EngineConfig, sizes: BlockSizes
) -> tuple[AttentionSpec, ...]:
    """Return the caches of an indexer that selects groups: keys of the incomplete one, one key per other.

    Source: vLLM 0.29.0 to 0.33.0, models/qwen4_exp/common/qsa_cache.py QSAKeyStateCache and
    QSACompressedKeyCache.

    Raises:
        EngineRefusal: a block is no multiple of the incomplete groups' keys (stage ``block_size``).
    """
    group, size = indexer.group_size, indexer.head_dim
    ring = round_up(group + engine_config.speculative_tokens, group)
    if sizes.block_size % ring:
        words = f"QSA ring capacity {ring} must divide the attention block size {sizes.block_size}"
        raise EngineRefusal(Stage.BLOCK_SIZE, words, type="AssertionError")
    positions = POSITION_AXES * POSITION_HALVES if indexer.keeps_positions else 0
    return (
        AttentionSpec(
            kind=CacheKind.CIRCULAR_BUFFER,
            block_size=ring,
            num_kv_heads=1,
            head_size=round_up(size, POSITION_HALVES) + positions if positions else size,
            head_size_v=0,
            format=HALVES,
        ),
        AttentionSpec(
            kind=CacheKind(engine_config.rules.specs.mla_kind),
            block_size=sizes.block_size,
            num_kv_heads=1,
            head_size=size,
            head_size_v=0,
            format=HALVES,
            tokens_per_state=group,
        ),
    )


def with_regions(indexer: RegionIndexer, own: AttentionSpec) -> tuple[AttentionSpec, ...]:
    """Return keys and values, a summary of each region, and the open region in a page of the first's size.

    Source: vLLM 0.33.0, models/step5/nvidia: Step5DSAAttentionBackend.customize_spec,
    Step5SparseSummaryCacheLayer and Step5CSATailRing.

    Raises:
        EngineRefusal: a page does not hold the open region (stage ``page_size``).
    """
    # Only prediction layers of its own would ask for more rows.
    page, region, rows = own.page_size, indexer.region_size, indexer.region_size - 1
    if page % RING_ROW or page // RING_ROW < rows:
        words = f"Step5 CSA tail ring needs {rows} rows of {RING_ROW} bytes in one {page}-byte KV page; "
        raise EngineRefusal(Stage.PAGE_SIZE, f"{words}increase --block-size.")
    return (
        replace(own, block_alignment=region * own.bytes_per_token),
        AttentionSpec(
            kind=CacheKind.FULL_ATTENTION,
            block_size=own.block_size,
            num_kv_heads=1,
            head_size=indexer.head_dim,
            head_size_v=0,
            format=BYTES,
            tokens_per_state=region,
        ),
        AttentionSpec(
            kind=CacheKind.CIRCULAR_BUFFER,
            block_size=own.block_size,
            num_kv_heads=1,
            head_size=page // (own.block_size * HALVES.head_bytes(1, 0)),
            head_size_v=0,
            format=HALVES,
            block_alignment=RING_ROW,
        ),
    )
