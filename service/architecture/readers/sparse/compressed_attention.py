"""Attention over a window and over older tokens compressed in groups: DeepSeek V4 and V4.1."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from service.architecture.config import Config, InvalidConfig
from service.architecture.encoders import adapted_patches
from service.architecture.layers.compressed_attention import CompressedAttention, SharedCompressedAttention
from service.architecture.layers.decoder_layer import DecoderLayer
from service.architecture.layers.experts import ExpertWeights, MixtureOfExperts
from service.architecture.layers.hidden_streams import HyperConnections
from service.architecture.layers.ngram_lookup import NgramLookup
from service.architecture.layers.sparse_indexers import Indexer
from service.architecture.readers.recipes.family import Family, num_layers

INDEXED_RATIO: Final = 4
"""vLLM 0.20.0 to 0.33.0, DeepseekV4Attention: only layers with this ratio have an indexer."""
FEED_FORWARD: Final = "ffn"
"""Name of a layer's experts: vLLM 0.20.0 to 0.33.0, DeepseekV4DecoderLayer."""
PROJECTIONS: Final = ("w1", "w3")
RATIOS: Final = frozenset({0, 1, 4, 128})
"""vLLM 0.20.0 to 0.33.0, CompressorStateCache: other ratios have no block size."""
SHARED_RATIOS: Final = frozenset({0, 1, 2})
"""vLLM 0.30.0 to 0.33.0, models/deepseek_v41/attention.py."""
COMPRESSED_SIZES: Final = (512, 64)
"""Elements of a compressed token and those that rotate: vLLM 0.30.0 to 0.33.0, DeepseekCompressor."""
MOST_ROWS: Final = 1 << 40
"""Rows of a table of n-grams, which has hundreds of millions."""
SOURCES, INDEXES, NGRAMS = "kv_source_layer_ids", "index_source_layer_ids", "engram_layer_ids"


def _indexer(text: Config) -> Indexer:
    return Indexer(
        num_heads=text.count("index_n_heads"),
        head_dim=text.integer("index_head_dim"),
        top_k=text.integer("index_topk"),
    )


def _attention(text: Config, ratio: int) -> CompressedAttention:
    return CompressedAttention(
        num_heads=text.count("num_attention_heads"),
        head_size=text.integer("head_dim"),
        q_lora_rank=text.integer("q_lora_rank"),
        qk_rope_head_dim=text.integer("qk_rope_head_dim"),
        sliding_window=text.integer("sliding_window"),
        compress_ratio=ratio,
        indexer=_indexer(text) if ratio == INDEXED_RATIO else None,
        output_groups=text.count("o_groups"),
        output_rank=text.integer("o_lora_rank"),
    )


def _experts(text: Config, *, images: bool) -> MixtureOfExperts:
    width = text.integer("moe_intermediate_size")
    return MixtureOfExperts(
        num_experts=text.count("n_routed_experts"),
        experts_per_token=text.count("num_experts_per_tok"),
        intermediate_size=width,
        shared_intermediate_size=width * text.count("n_shared_experts", default=0, minimum=0),
        clamped="swiglu_limit" in text,
        weights=ExpertWeights(router_bias=True, media_bias=images, projections=PROJECTIONS),
    )


def _layers(text: Config) -> tuple[DecoderLayer, ...]:
    ratios, count = _ratios(text, RATIOS), num_layers(text)
    images = bool(text.integer("vision_n_layers", default=0, minimum=0))
    experts = _experts(text, images=images)
    # Source: vLLM 0.20.2 to 0.32.0, DeepseekV4MoE: the first layers choose experts by the token's id.
    tokens = text.integer("vocab_size")
    hashing = replace(
        experts,
        weights=replace(experts.weights, router_bias=images, hashed_tokens=tokens),
    )
    hashed = text.count("num_hash_layers", default=0, minimum=0)
    return tuple(
        DecoderLayer(
            _attention(text, ratio), hashing if index < hashed else experts, feed_forward_name=FEED_FORWARD
        )
        for index, ratio in enumerate(ratios[:count])
    )


def _ratios(text: Config, known: frozenset[int]) -> tuple[int, ...]:
    ratios, count = text.counts("compress_ratios"), num_layers(text)
    if len(ratios) < count or set(ratios) - known:
        raise InvalidConfig(
            text.at("compress_ratios"), f"must have a ratio of {sorted(known)} for each of {count} layers"
        )
    return ratios


def _shared_layers(text: Config) -> tuple[DecoderLayer, ...]:
    """Read the layers of DeepSeek V4.1, most of which read what an earlier one compressed.

    Source: vLLM 0.30.0 to 0.33.0, models/deepseek_v41/attention.py and nvidia/model.py.
    """
    ratios, sources, indexes = _ratios(text, SHARED_RATIOS), text.counts(SOURCES), text.counts(INDEXES)
    count = num_layers(text)
    compressed = [index for index, ratio in enumerate(ratios[:count]) if ratio]
    for name, owners in ((SOURCES, sources), (INDEXES, indexes)):
        if compressed and min(owners, default=len(ratios)) > compressed[0]:
            raise InvalidConfig(
                text.at(name), f"must name a layer up to {compressed[0]}, which reads its tokens"
            )
    if not {source for source in sources if source < count} <= set(compressed):
        raise InvalidConfig(text.at(SOURCES), "names a layer that compresses nothing")
    sizes = text.integer("head_dim"), text.integer("qk_rope_head_dim")
    if sources and sizes != COMPRESSED_SIZES:
        raise InvalidConfig(
            text.at("head_dim"), f"must be {COMPRESSED_SIZES[0]}, of which {COMPRESSED_SIZES[1]} rotate"
        )
    experts, lookups = _experts(text, images=True), _lookups(text)
    indexer = _indexer(text)
    first = text.fields.get("candidate_source_layer_id")
    blocks = text.count("candidate_topk_blocks", default=0, minimum=0)
    return tuple(
        DecoderLayer(
            replace(
                _shared(text, ratio, indexer if index in indexes else None, owns=index in sources),
                candidate_blocks=blocks if index == first else 0,
            ),
            experts,
            ngrams=lookups.get(index),
            feed_forward_name=FEED_FORWARD,
        )
        for index, ratio in enumerate(ratios[:count])
    )


def _shared(text: Config, ratio: int, indexer: Indexer | None, *, owns: bool) -> SharedCompressedAttention:
    plain = _attention(text, 0)
    return SharedCompressedAttention(
        num_heads=plain.num_heads,
        head_size=plain.head_size,
        q_lora_rank=plain.q_lora_rank,
        qk_rope_head_dim=plain.qk_rope_head_dim,
        sliding_window=plain.sliding_window,
        compress_ratio=ratio,
        indexer=indexer,
        output_groups=plain.output_groups,
        output_rank=plain.output_rank,
        compresses_tokens=owns,
        selected_tokens=text.integer("index_topk") if ratio else 0,
    )


def _lookups(text: Config) -> Mapping[int, NgramLookup]:
    """Return the n-gram tables by layer: vLLM 0.30.0 to 0.33.0, common/engram.py EngramLayout."""
    layers = text.counts(NGRAMS)
    if not layers:
        return {}
    rows = text.counts("engram_num_embeddings", maximum=MOST_ROWS)
    if len(rows) != len(layers):
        raise InvalidConfig(
            text.at("engram_num_embeddings"), f"must have an entry for each of {len(layers)} layers"
        )
    tables = (text.count("engram_max_ngram_size") - 1) * text.count("engram_n_heads")
    width, copies = text.integer("engram_head_dim"), text.count("hc_mult")
    return {
        layer: NgramLookup(tables, width, count, copies) for layer, count in zip(layers, rows, strict=True)
    }


def _hyper_connections(text: Config) -> HyperConnections | None:
    copies = text.count("hc_mult", default=0, minimum=0)
    return HyperConnections(copies, mixed=True, merged_everywhere=True) if copies else None


def _collapsed_connections(text: Config) -> HyperConnections:
    """Return copies that the last layer's own weights merge: vLLM 0.30.0 to 0.33.0, DeepseekV4Model."""
    return HyperConnections(text.count("hc_mult"), mixed=True, merged_everywhere=False, summed=True)


def _unread_scales(config: Config, _: Config) -> tuple[str, ...]:
    """Return what attention reads of a quantized checkpoint's config, which other tools than DeepSeek's lack.

    Source: vLLM 0.20.0 to 0.22.1, DeepseekV4Attention.__init__; 0.23.0 has "ue8m0" in its stead.
    """
    quantization = config.section("quantization_config")
    if quantization is None:
        return ("quantization_config",)
    return () if "scale_fmt" in quantization else ("scale_fmt",)


FAMILIES: Final[Mapping[str, Family]] = {
    "DeepseekV4ForCausalLM": Family(
        _layers, tied=False, hyper_connections=_hyper_connections, lacks=_unread_scales
    ),
    "DeepseekV41ForCausalLM": Family(
        _shared_layers,
        multimodal=True,
        tied=False,
        hyper_connections=_collapsed_connections,
        towers=adapted_patches.deepseek_v41,
    ),
}
