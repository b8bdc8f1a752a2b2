"""Attention over a window and over older tokens compressed in groups: DeepSeek V4."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from service.architecture.config import Config, InvalidConfig
from service.architecture.layers.compressed_attention import CompressedAttention
from service.architecture.layers.decoder_layer import DecoderLayer
from service.architecture.layers.experts import ExpertWeights, MixtureOfExperts
from service.architecture.layers.hidden_streams import HyperConnections
from service.architecture.layers.sparse_indexers import Indexer
from service.architecture.readers.family import Family, num_layers

INDEXED_RATIO: Final = 4
"""vLLM 0.20.0 to 0.33.0, DeepseekV4Attention: only layers with this ratio have an indexer."""
FEED_FORWARD: Final = "ffn"
"""Name of a layer's experts: vLLM 0.20.0 to 0.33.0, DeepseekV4DecoderLayer."""
PROJECTIONS: Final = ("w1", "w3")
RATIOS: Final = frozenset({0, 1, 4, 128})
"""vLLM 0.20.0 to 0.33.0, CompressorStateCache: other ratios have no block size."""


def _attention(text: Config, ratio: int) -> CompressedAttention:
    indexer = Indexer(
        num_heads=text.count("index_n_heads"),
        head_dim=text.integer("index_head_dim"),
        top_k=text.integer("index_topk"),
    )
    return CompressedAttention(
        num_heads=text.count("num_attention_heads"),
        head_size=text.integer("head_dim"),
        q_lora_rank=text.integer("q_lora_rank"),
        qk_rope_head_dim=text.integer("qk_rope_head_dim"),
        sliding_window=text.integer("sliding_window"),
        compress_ratio=ratio,
        indexer=indexer if ratio == INDEXED_RATIO else None,
        output_groups=text.count("o_groups"),
        output_rank=text.integer("o_lora_rank"),
    )


def _layers(text: Config) -> tuple[DecoderLayer, ...]:
    ratios, count = text.counts("compress_ratios"), num_layers(text)
    if len(ratios) < count or set(ratios) - RATIOS:
        raise InvalidConfig(
            text.at("compress_ratios"), f"must have a ratio of {sorted(RATIOS)} for each of {count} layers"
        )
    width = text.integer("moe_intermediate_size")
    experts = MixtureOfExperts(
        num_experts=text.count("n_routed_experts"),
        experts_per_token=text.count("num_experts_per_tok"),
        intermediate_size=width,
        shared_intermediate_size=width * text.count("n_shared_experts", default=0, minimum=0),
        clamped="swiglu_limit" in text,
        weights=ExpertWeights(router_bias=True, projections=PROJECTIONS),
    )
    # Source: vLLM 0.20.2 to 0.32.0, DeepseekV4MoE: the first layers choose experts by the token's id.
    hashing = replace(
        experts, weights=ExpertWeights(hashed_tokens=text.integer("vocab_size"), projections=PROJECTIONS)
    )
    hashed = text.count("num_hash_layers", default=0, minimum=0)
    return tuple(
        DecoderLayer(
            _attention(text, ratio), hashing if index < hashed else experts, feed_forward_name=FEED_FORWARD
        )
        for index, ratio in enumerate(ratios[:count])
    )


def _hyper_connections(text: Config) -> HyperConnections | None:
    copies = text.count("hc_mult", default=0, minimum=0)
    return HyperConnections(copies, mixed=True, merged_everywhere=True) if copies else None


FAMILIES: Final[Mapping[str, Family]] = {
    "DeepseekV4ForCausalLM": Family(_layers, tied=False, hyper_connections=_hyper_connections),
}
