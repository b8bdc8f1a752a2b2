"""The caches of compressed attention whose compressed tokens several layers read (DeepSeek V4.1)."""

from dataclasses import dataclass
from math import lcm
from typing import Final

from service.architecture.layers.cache_part import CachePart
from service.architecture.layers.compressed_attention import SharedCompressedAttention
from service.backends.backend import AttentionBackend
from service.engine_config.engine_config import EngineConfig
from service.engine_config.indexer_keys import DATA_CENTER_BLACKWELL
from service.kv_cache.compressed import (
    BYTES,
    FLOATS,
    PACKED_ALIGNMENT,
    PLAIN_ALIGNMENT,
    SLOT,
    fp4_indexer_bytes,
    indexer_bytes,
)
from service.kv_cache.formats import CacheFormat, Slot, cache_format
from service.kv_cache.specs import AttentionSpec, CacheKind
from service.units import next_power_of_two

WINDOW_BLOCK: Final = 32
"""vLLM 0.30.0 to 0.33.0, models/deepseek_v41/attention.py swa_cache_layer."""
MXFP8_SLOT: Final = Slot(528)
"""512 bytes of fp8 and a scale for each 32: vLLM 0.30.0 to 0.33.0, _use_v41_mxfp8_kv_record."""
NVFP4_SLOT: Final = Slot(288)
"""256 bytes of pairs of 4-bit floats and a scale for each 16: vLLM 0.31.0, compressed_bytes_per_token."""
NVFP4: Final = "nvfp4_ds_mla"
LEAST_RING: Final = 8
"""vLLM 0.30.0 to 0.33.0, models/deepseek_v41/compressor.py CompressorStateCache.block_size."""


@dataclass(frozen=True, slots=True)
class TokenRows:
    """How one token is stored."""

    window: CacheFormat
    compressed: CacheFormat
    alignment: int
    """Bytes of which each page is a multiple."""
    block_alignment: int = 1
    """Bytes of which a block over all layers is a whole number."""


def token_rows(backend: AttentionBackend, engine_config: EngineConfig) -> TokenRows:
    """Return the rows that a backend's kernels read."""
    stored = cache_format(backend.cache_dtype, engine_config.dtype)
    if not isinstance(stored, Slot):
        return TokenRows(stored, stored, PLAIN_ALIGNMENT)
    if engine_config.compute_capability.major != DATA_CENTER_BLACKWELL:
        return TokenRows(SLOT, SLOT, PACKED_ALIGNMENT)
    compressed = NVFP4_SLOT if backend.cache_dtype == NVFP4 else MXFP8_SLOT
    rows = lcm(MXFP8_SLOT.slot_bytes, compressed.slot_bytes)
    aligned = engine_config.rules.specs.compressed_rows_align_blocks
    return TokenRows(MXFP8_SLOT, compressed, PLAIN_ALIGNMENT, rows if aligned else 1)


@dataclass(frozen=True, slots=True)
class SharedCaches:
    """The caches that a layer may own.

    Source: vLLM 0.30.0 to 0.33.0, models/deepseek_v41/attention.py and compressor.py, and
    v1/attention/backends/mla/sparse_swa.py DeepseekV4SWACache.
    """

    mixer: SharedCompressedAttention
    rows: TokenRows
    block_size: int
    drafted: int
    """Draft tokens of a step."""
    fp4_keys: bool
    """Whether the indexer has room for 4-bit keys alone."""

    def of(self, part: CachePart) -> AttentionSpec:
        """Return the cache of one part of the layer."""
        match part:
            case CachePart.WINDOW:
                return self._window()
            case CachePart.ATTENTION:
                return self._compressed(self.mixer.head_size, self.rows.compressed)
            case CachePart.INDEXER if self.mixer.indexer is not None:
                size = fp4_indexer_bytes if self.fp4_keys else indexer_bytes
                return self._compressed(size(self.mixer.indexer), BYTES)
            case CachePart.COMPRESSOR:
                return self._ring()
            case _:
                raise ValueError(f"this attention has no {part}")

    def _window(self) -> AttentionSpec:
        return AttentionSpec(
            kind=CacheKind.SLIDING_WINDOW_MLA,
            block_size=WINDOW_BLOCK,
            num_kv_heads=1,
            head_size=self.mixer.head_size,
            head_size_v=0,
            format=self.rows.window,
            sliding_window=self.mixer.sliding_window,
            alignment=self.rows.alignment,
            block_alignment=self.rows.block_alignment,
        )

    def _compressed(self, width: int, stored: CacheFormat) -> AttentionSpec:
        return AttentionSpec(
            kind=CacheKind.MLA_ATTENTION,
            block_size=self.block_size,
            num_kv_heads=1,
            head_size=width,
            head_size_v=0,
            format=stored,
            tokens_per_state=self.mixer.compress_ratio,
            alignment=self.rows.alignment,
        )

    def _ring(self) -> AttentionSpec:
        """Return keys and scores of the latest tokens: those of a step with drafts, and the one before."""
        return AttentionSpec(
            kind=CacheKind.CIRCULAR_BUFFER,
            block_size=max(LEAST_RING, next_power_of_two(self.drafted + 2)),
            num_kv_heads=1,
            head_size=2 * self.mixer.head_size,
            head_size_v=0,
            format=FLOATS,
        )
