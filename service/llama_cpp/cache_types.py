"""The types that llama.cpp stores keys and values in, and the bytes of a row."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class CacheType:
    """A type of the cache: `block` elements take `block_bytes` bytes."""

    name: str
    block: int
    block_bytes: int

    @property
    def is_quantized(self) -> bool:
        """Whether elements share a scale, so that a row must consist of whole blocks."""
        return self.block > 1

    def row_bytes(self, elements: int) -> int:
        """Return the bytes of a row of `elements` elements (ggml 0c1e57098, `ggml_row_size`)."""
        return elements * self.block_bytes // self.block


CACHE_TYPES: Final[Mapping[str, CacheType]] = {
    each.name: each
    for each in (
        CacheType("f32", 1, 4),
        CacheType("f16", 1, 2),
        CacheType("bf16", 1, 2),
        CacheType("q8_0", 32, 34),
        CacheType("q4_0", 32, 18),
        CacheType("q4_1", 32, 20),
        CacheType("iq4_nl", 32, 18),
        CacheType("q5_0", 32, 22),
        CacheType("q5_1", 32, 24),
    )
}
"""What `-ctk` and `-ctv` accept: llama.cpp 0c1e57098, `kv_cache_types` and ggml's `type_traits`."""
FLOAT32: Final = CACHE_TYPES["f32"]
"""Type of recurrent states."""
