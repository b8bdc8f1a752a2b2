"""What one more token of a sequence costs in a model's cache, before any release or rank is chosen."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import assert_never

from service.architecture.layers.attention import Attention
from service.architecture.layers.compressed_attention import CompressedAttention
from service.architecture.layers.decoder_layer import TokenMixer
from service.architecture.layers.mla import MultiHeadLatentAttention
from service.architecture.model import ModelArchitecture
from service.kv_cache.compressed import HALVES, SLOT, indexer_bytes
from service.kv_cache.formats import (
    QUANTIZED,
    CacheFormat,
    PlainFormat,
    Slot,
    cache_format,
)


@dataclass(frozen=True, slots=True)
class TokenBytes:
    """Bytes of one token over all layers, on one rank alone."""

    first: Fraction
    """While every window has room."""
    later: Fraction
    """Once windows and chunks are full: only layers that attend to all tokens still grow."""


def token_bytes(architecture: ModelArchitecture) -> Mapping[str, TokenBytes]:
    """Return the bytes of one token by cache dtype, for the dtypes that the model's kind of attention has.

    Layers that read another one's cache, cross attention and recurrent ones store nothing per token.
    """
    owners = [mixer for _, mixer in architecture.attention_layers if not _keeps_none(mixer)]
    answers: dict[str, TokenBytes] = {}
    for dtype in ("auto", *QUANTIZED):
        stored = cache_format(dtype, architecture.dtype)
        if owners and all(_can_store(mixer, stored) for mixer in owners):
            sizes = [
                (Fraction(size), bounded) for mixer in owners for size, bounded in _stored(mixer, stored)
            ]
            answers[dtype] = TokenBytes(
                sum((size for size, _ in sizes), Fraction(0)),
                sum((size for size, bounded in sizes if not bounded), Fraction(0)),
            )
    return answers


def _keeps_none(mixer: TokenMixer) -> bool:
    return isinstance(mixer, Attention) and (
        mixer.cross or mixer.encodes or mixer.shares_cache_of is not None
    )


def _can_store(mixer: TokenMixer, stored: CacheFormat) -> bool:
    match mixer:
        case Attention():
            return not isinstance(stored, Slot)
        case MultiHeadLatentAttention():
            return isinstance(stored, PlainFormat) or (isinstance(stored, Slot) and mixer.indexer is not None)
        case CompressedAttention():
            return isinstance(stored, Slot | PlainFormat)
    assert_never(mixer)


def _stored(mixer: TokenMixer, stored: CacheFormat) -> Iterator[tuple[Fraction | int, bool]]:
    """Yield the bytes that a layer stores of a token, and whether a window bounds them."""
    match mixer:
        case Attention():
            bounded = mixer.sliding_window is not None or mixer.attention_chunk_size is not None
            yield mixer.num_kv_heads * stored.head_bytes(mixer.head_size, mixer.head_size_v), bounded
            if mixer.block_indexer is not None:
                yield HALVES.head_bytes(mixer.block_indexer.head_dim, 0), False
            if mixer.region_indexer is not None:
                yield Fraction(mixer.region_indexer.head_dim, mixer.region_indexer.region_size), False
            if mixer.group_indexer is not None:
                keys = HALVES.head_bytes(mixer.group_indexer.head_dim, 0)
                yield Fraction(keys, mixer.group_indexer.group_size), False
        case MultiHeadLatentAttention():
            yield stored.head_bytes(mixer.row_size or mixer.head_size, 0), mixer.sliding_window is not None
            if mixer.indexer is not None and not mixer.indexer.reuses_selection:
                yield Fraction(indexer_bytes(mixer.indexer), mixer.indexer.group_size), False
        case CompressedAttention():
            vector = (SLOT if isinstance(stored, Slot) else stored).head_bytes(mixer.head_size, 0)
            yield vector, True
            if mixer.compresses:
                yield Fraction(vector, mixer.compress_ratio), False
            if mixer.indexer is not None and mixer.keeps_keys:
                yield Fraction(indexer_bytes(mixer.indexer), mixer.compress_ratio), False
        case _:
            assert_never(mixer)
