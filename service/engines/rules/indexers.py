"""Which types the keys of sparse indexers can have, and what they take."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class IndexerRules:
    """Which types the keys of sparse indexers can have, and what they take."""

    fp4_alias: bool
    """Whether the release takes ``use_fp4_indexer_cache``."""
    fp4_halves_keys: bool
    """Whether the indexer of compressed attention has room for 4-bit keys alone, not for 8-bit ones."""
    sparse_keys_by_name: bool
    """Whether indexers of sparse MLA and of compressed attention read ``indexer_kv_dtype``; if not, only
    ``use_fp4_indexer_cache``.
    """
    fp4_refusal: tuple[str, ...]
    """What the engine raises, and says, for 4-bit keys on other cards than data center Blackwell."""
    block_keys_fp8_anywhere: bool
    """Whether 8-bit keys of block indexers need only a card with fp8, not data center Blackwell."""
