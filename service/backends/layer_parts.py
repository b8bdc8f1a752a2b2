"""The parts of a layer that have caches of their own."""

from collections.abc import Mapping
from typing import Final, assert_never

from service.architecture.layers.attention import Attention
from service.architecture.layers.cache_part import CachePart
from service.architecture.layers.compressed_attention import CompressedAttention, SharedCompressedAttention
from service.architecture.layers.decoder_layer import TokenMixer
from service.architecture.layers.mla import MultiHeadLatentAttention
from service.architecture.layers.sparse_indexers import GroupIndexer, Indexer, RegionIndexer
from service.backends.unselected import UnselectedLayer
from service.engines.rules.specs import SpecRules

_BESIDE_HEADS: Final[Mapping[CachePart, UnselectedLayer]] = {
    CachePart.INDEXER: UnselectedLayer.BLOCK_INDEXER,
    CachePart.CONVOLUTIONS: UnselectedLayer.PACKED_CONVOLUTIONS,
}
_BESIDE_GROUPED: Final[Mapping[CachePart, UnselectedLayer]] = {
    CachePart.INDEXER: UnselectedLayer.GROUP_INDEXER,
    CachePart.INDEXER_COMPRESSOR: UnselectedLayer.GROUP_INDEXER,
}
_BESIDE_REGIONS: Final[Mapping[CachePart, UnselectedLayer]] = {
    CachePart.INDEXER: UnselectedLayer.REGION_SUMMARIES,
    CachePart.INDEXER_COMPRESSOR: UnselectedLayer.REGION_RING,
}
_BESIDE_MLA: Final[Mapping[CachePart, UnselectedLayer]] = {CachePart.INDEXER: UnselectedLayer.SPARSE_INDEXER}
_BESIDE_GROUPED_MLA: Final[Mapping[CachePart, UnselectedLayer]] = {
    CachePart.INDEXER: UnselectedLayer.POOLED_INDEXER,
    CachePart.INDEXER_COMPRESSOR: UnselectedLayer.POOLED_TAIL,
}
_BESIDE_COMPRESSED: Final[Mapping[CachePart, UnselectedLayer]] = {
    CachePart.WINDOW: UnselectedLayer.DEEPSEEK_V4_WINDOW,
    CachePart.INDEXER: UnselectedLayer.DEEPSEEK_V4_INDEXER,
    CachePart.INDEXER_COMPRESSOR: UnselectedLayer.DEEPSEEK_V4_COMPRESSOR,
    CachePart.COMPRESSOR: UnselectedLayer.DEEPSEEK_V4_COMPRESSOR,
}
_BESIDE_SHARED: Final[Mapping[CachePart, UnselectedLayer]] = {
    CachePart.WINDOW: UnselectedLayer.DEEPSEEK_V4_WINDOW,
    CachePart.INDEXER: UnselectedLayer.DEEPSEEK_V41_INDEXER,
    CachePart.COMPRESSOR: UnselectedLayer.DEEPSEEK_V41_COMPRESSOR,
}


def built_parts(mixer: TokenMixer, rules: SpecRules) -> tuple[CachePart, ...]:
    """Return the parts of a layer that may own a cache, in the order the engine builds them.

    Source: vLLM 0.32.0, DeepseekV2MLAAttention, DeepseekV4Attention and MiniMaxM3SparseAttention; 0.33.0,
    InklingAttention, Qwen4ExpQSAAttention, Step5Attention and DeepSeek V4.1's DeepseekV4Attention.
    """
    match mixer:
        case Attention():
            return _of_heads(mixer)
        case MultiHeadLatentAttention(indexer=None):
            return (CachePart.ATTENTION,)
        case MultiHeadLatentAttention(indexer=Indexer(reuses_selection=True)) if (
            rules.reused_selection_needs_no_indexer
        ):
            return (CachePart.ATTENTION,)
        case MultiHeadLatentAttention(indexer=Indexer(group_size=1)):
            return CachePart.INDEXER, CachePart.ATTENTION
        case MultiHeadLatentAttention():
            return CachePart.INDEXER, CachePart.INDEXER_COMPRESSOR, CachePart.ATTENTION
        case CompressedAttention():
            return _of_compressed(mixer)
    assert_never(mixer)


def _of_compressed(mixer: CompressedAttention) -> tuple[CachePart, ...]:
    if isinstance(mixer, SharedCompressedAttention):
        keys = (CachePart.INDEXER,) if mixer.keeps_keys else ()
        ring = (CachePart.COMPRESSOR,) if mixer.pools else ()
        return CachePart.ATTENTION, *keys, CachePart.WINDOW, *ring
    indexed = (CachePart.INDEXER, CachePart.INDEXER_COMPRESSOR) if mixer.indexer is not None else ()
    own = (CachePart.ATTENTION, CachePart.COMPRESSOR) if mixer.compresses else (CachePart.ATTENTION,)
    return CachePart.WINDOW, *indexed, *own


def _of_heads(mixer: Attention) -> tuple[CachePart, ...]:
    if mixer.region_indexer is not None:
        return CachePart.ATTENTION, CachePart.INDEXER, CachePart.INDEXER_COMPRESSOR
    if mixer.group_indexer is not None:
        return CachePart.INDEXER_COMPRESSOR, CachePart.INDEXER, CachePart.ATTENTION
    if mixer.block_indexer is not None:
        return CachePart.INDEXER, CachePart.ATTENTION
    if mixer.convolutions is not None:
        return CachePart.CONVOLUTIONS, CachePart.ATTENTION
    return (CachePart.ATTENTION,)


def kinds_beside(mixer: TokenMixer) -> Mapping[CachePart, UnselectedLayer]:
    """Return the kinds of caches that a layer may have beside its attention's own."""
    match mixer:
        case Attention(group_indexer=GroupIndexer()):
            return _BESIDE_GROUPED
        case Attention(region_indexer=RegionIndexer()):
            return _BESIDE_REGIONS
        case Attention():
            return _BESIDE_HEADS
        case MultiHeadLatentAttention(indexer=Indexer(group_size=size)) if size > 1:
            return _BESIDE_GROUPED_MLA
        case MultiHeadLatentAttention():
            return _BESIDE_MLA
        case CompressedAttention():
            return _BESIDE_SHARED if isinstance(mixer, SharedCompressedAttention) else _BESIDE_COMPRESSED
    assert_never(mixer)
