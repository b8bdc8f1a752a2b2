"""The caches of compressed attention (DeepSeek V4): window, compressed tokens, incomplete groups."""

from typing import Final, assert_never

from service.architecture.layers.cache_part import CachePart
from service.architecture.layers.compressed_attention import CompressedAttention
from service.architecture.layers.sparse_indexers import Indexer
from service.engines.refusal import EngineRefusal, Stage
from service.kv_cache.formats import CacheFormat, PlainFormat, Slot
from service.kv_cache.specs import AttentionSpec, CacheKind

INDEXER_GROUP: Final = 128
INDEXER_SCALE_BYTES: Final = 4
FP4_GROUP: Final = 32
"""Elements of a scale of one byte: vLLM 0.28.0, MXFP4_BLOCK_SIZE."""
BYTES: Final = PlainFormat(1)
HALVES: Final = PlainFormat(2)
FLOATS: Final = PlainFormat(4)
WINDOW_BLOCK: Final = 64
"""vLLM 0.20.0 to 0.33.0, DeepseekV4SWACache.block_size."""
STATE_BLOCKS: Final = {4: 4, 128: 8}
"""By the ratio of compression: vLLM 0.20.0 to 0.33.0, CompressorStateCache.block_size."""
SLOT: Final = Slot(584)
"""448 bytes of fp8, 64 rotary elements of 2 bytes, 8 of scales: DeepseekV4Attention.get_kv_cache_spec."""
PACKED_ALIGNMENT: Final = 576
PLAIN_ALIGNMENT: Final = 512


def indexer_bytes(indexer: Indexer) -> int:
    """Return the bytes of one key of an indexer: a byte per element and a scale per group."""
    return indexer.head_dim + indexer.head_dim // INDEXER_GROUP * INDEXER_SCALE_BYTES


def fp4_indexer_bytes(indexer: Indexer) -> int:
    """Return the bytes of one key of an indexer in 4 bits: half a byte per element and a scale per 32."""
    return indexer.head_dim // 2 + indexer.head_dim // FP4_GROUP


def compressed_cache(
    part: CachePart,
    mixer: CompressedAttention,
    exact: CacheFormat,
    block_size: int,
    *,
    fp4_keys: bool = False,
) -> AttentionSpec:
    """Return one cache of a layer; ``fp4_keys`` says that the indexer has room for 4-bit keys alone.

    Source: vLLM 0.20.2 and 0.32.0, get_kv_cache_spec of DeepseekV4Attention, DeepseekV4SWACache,
    DeepseekV4IndexerCache and CompressorStateCache.

    Raises:
        EngineRefusal: a block is smaller than a group that is compressed (stage ``grouping``).
    """
    packed = isinstance(exact, Slot)
    alignment = PACKED_ALIGNMENT if packed else PLAIN_ALIGNMENT
    slot = SLOT if packed else exact
    if block_size < mixer.compress_ratio:
        # A block that holds no compressed token has an empty page, by which the engine divides.
        raise EngineRefusal(Stage.GROUPING, "integer division or modulo by zero", type="ZeroDivisionError")
    match part:
        case CachePart.WINDOW:
            return _windowed(WINDOW_BLOCK, mixer.head_size, slot, mixer.sliding_window, alignment)
        case CachePart.ATTENTION:
            return _compressed(block_size, mixer.head_size, slot, mixer.compress_ratio, alignment)
        case CachePart.INDEXER:
            size = fp4_indexer_bytes if fp4_keys else indexer_bytes
            width = 0 if mixer.indexer is None else size(mixer.indexer)
            return _compressed(block_size, width, BYTES, mixer.compress_ratio, alignment)
        case CachePart.COMPRESSOR:
            return _states(mixer, mixer.head_size, alignment)
        case CachePart.INDEXER_COMPRESSOR:
            return _states(mixer, 0 if mixer.indexer is None else mixer.indexer.head_dim, alignment)
        case CachePart.CONVOLUTIONS:
            raise ValueError("compressed attention has no short convolutions")
    assert_never(part)


def _compressed(
    block_size: int, width: int, stored: CacheFormat, ratio: int, alignment: int
) -> AttentionSpec:
    return AttentionSpec(
        kind=CacheKind.MLA_ATTENTION,
        block_size=block_size,
        num_kv_heads=1,
        head_size=width,
        head_size_v=0,
        format=stored,
        tokens_per_state=ratio,
        alignment=alignment,
    )


def _windowed(block_size: int, width: int, stored: CacheFormat, window: int, alignment: int) -> AttentionSpec:
    return AttentionSpec(
        kind=CacheKind.SLIDING_WINDOW_MLA,
        block_size=block_size,
        num_kv_heads=1,
        head_size=width,
        head_size_v=0,
        format=stored,
        sliding_window=window,
        alignment=alignment,
    )


def _states(mixer: CompressedAttention, width: int, alignment: int) -> AttentionSpec:
    """Return the keys and scores of the tokens that are not compressed yet, in 32 bits."""
    groups = 2 if mixer.overlaps else 1
    return _windowed(
        STATE_BLOCKS[mixer.compress_ratio],
        2 * groups * width,
        FLOATS,
        groups * mixer.compress_ratio,
        alignment,
    )
