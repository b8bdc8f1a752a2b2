"""The caches that one layer may own."""

from enum import StrEnum


class CachePart(StrEnum):
    """The caches that one layer may own."""

    ATTENTION = "attention"
    """Keys and values, or the compressed vectors of MLA."""
    INDEXER = "indexer"
    """Keys by which an indexer selects tokens for sparse attention."""
    WINDOW = "window"
    """The latest tokens, uncompressed (DeepSeek V4)."""
    COMPRESSOR = "compressor"
    """The compressor's data for tokens that it has not compressed yet."""
    INDEXER_COMPRESSOR = "indexer_compressor"
    """The same for the indexer's keys."""
    CONVOLUTIONS = "convolutions"
    """The latest inputs of a layer's short convolutions (Inkling)."""
