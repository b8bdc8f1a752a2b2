"""MLA over selected tokens, with gates, sinks or windows: HY V4, Dots 3 Note."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from service.architecture.config import Config, InvalidConfig
from service.architecture.layers.decoder_layer import DecoderLayer
from service.architecture.layers.hidden_streams import HyperConnections
from service.architecture.layers.mla import MlaWeights, MultiHeadLatentAttention
from service.architecture.layers.sparse_indexers import Indexer
from service.architecture.readers.attention.mla import deepseek_experts, indexer, mla_attention
from service.architecture.readers.recipes.family import Family, dense, layer_types, num_layers
from service.architecture.readers.recipes.recipe import Sparse, after_dense

SPARSE_TYPES: Final = frozenset(
    {"sparse_attention", "sparse", "indexed_attention", "deepseek_sparse_attention"}
)
"""vLLM 0.29.0 to 0.33.0, hy_v4/nvidia/attention.py _SPARSE_LAYER_TYPES."""
ELEMENTWISE, HEADWISE = "elementwise", "headwise"
_EXPERTS: Final = Sparse(
    count=("n_routed_experts",), shared_count=("n_shared_experts",), router_bias=True, router_float32=True
)


def _hy_v4(text: Config) -> tuple[DecoderLayer, ...]:
    """Source: vLLM 0.29.0 to 0.33.0, HYV4DecoderLayer and HYV4MLAAttention."""
    mixer, experts, plain = _hy_v4_attention(text), _EXPERTS.read(text), dense(text)
    selects, routed = _hy_v4_indexers(text), _hy_v4_routed(text)
    return tuple(
        DecoderLayer(replace(mixer, indexer=indexer), experts if sparse else plain)
        for indexer, sparse in zip(selects, routed, strict=True)
    )


def _hy_v4_attention(text: Config) -> MultiHeadLatentAttention:
    gate = text.text("gating_type") if text.boolean("gated_mla") else ""
    if gate not in {"", ELEMENTWISE, HEADWISE}:
        raise InvalidConfig(text.at("gating_type"), f"must be {ELEMENTWISE} or {HEADWISE}")
    plain = mla_attention(text)
    weights = replace(plain.weights, output_gate=gate == ELEMENTWISE, head_gate=gate == HEADWISE)
    return replace(plain, sinks=text.boolean("learnable_sink"), weights=weights)


def _hy_v4_indexers(text: Config) -> tuple[Indexer | None, ...]:
    """Return the indexer of each layer; ``None`` for layers whose type is not sparse."""
    count, types = num_layers(text), layer_types(text)
    anew = Indexer(text.count("index_n_heads"), text.integer("index_head_dim"), text.integer("index_topk"))
    again = replace(anew, reuses_selection=True)
    shared = _each(text, "indexer_types", count) or tuple(
        "full" if index == 0 or index % 4 == 1 else "shared" for index in range(count)
    )
    indexers = tuple(again if kind == "shared" else anew for kind in shared)
    return tuple(
        indexer if types and types[index] in SPARSE_TYPES else None for index, indexer in enumerate(indexers)
    )


def _hy_v4_routed(text: Config) -> tuple[bool, ...]:
    """Return whether each layer has experts; without ``mlp_layer_types``, all but the first have."""
    count = num_layers(text)
    specified = _each(text, "mlp_layer_types", count)
    return tuple(kind != "dense" for kind in specified) or tuple(index > 0 for index in range(count))


def _each(text: Config, name: str, count: int) -> tuple[str, ...]:
    specified = text.texts(name)
    if specified and len(specified) != count:
        raise InvalidConfig(text.at(name), f"has {len(specified)} entries for {count} layers")
    return specified


def _hy_v4_streams(text: Config) -> HyperConnections | None:
    if not text.boolean("enable_ihc"):
        return None
    return HyperConnections(text.count("hc_mult"), mixed=False, merged_everywhere=False)


def _dots3_note(text: Config) -> tuple[DecoderLayer, ...]:
    """Source: vLLM 0.28.0 to 0.33.0, models/dots3_note/nvidia/model.py Dots3NoteDecoderLayer."""
    types = layer_types(text)
    if not types:
        raise InvalidConfig(text.at("layer_types"), "is missing")
    windowed = _dots3_windowed(text)
    plain = mla_attention(text)
    weights = replace(plain.weights, qkv_bias=False, rotary_norm=True)
    full = replace(plain, row_size=windowed.head_size, weights=weights)
    full = _gated(full, text.text("attention_gate_type"))
    experts, network = deepseek_experts(text), dense(text)
    return tuple(
        DecoderLayer(
            windowed if types[index] == "sliding_attention" else replace(full, indexer=indexer(text, index)),
            experts if after_dense(text, index) else network,
        )
        for index in range(num_layers(text))
    )


def _dots3_windowed(text: Config) -> MultiHeadLatentAttention:
    mixer = MultiHeadLatentAttention(
        num_heads=text.count("swa_num_attention_heads"),
        kv_lora_rank=text.integer("swa_kv_lora_rank"),
        qk_nope_head_dim=text.integer("swa_qk_nope_head_dim"),
        qk_rope_head_dim=text.integer("swa_qk_rope_head_dim"),
        sliding_window=text.integer("sliding_window_size"),
        weights=MlaWeights(
            q_lora_rank=text.integer("swa_q_lora_rank"),
            v_head_dim=text.integer("swa_v_head_dim"),
            rotary_norm=True,
        ),
    )
    return _gated(mixer, text.text("swa_attention_gate_type"))


def _gated(mixer: MultiHeadLatentAttention, kind: str) -> MultiHeadLatentAttention:
    """Return attention with one gate per head, or for any other kind with a gate as wide as the values."""
    return replace(
        mixer, weights=replace(mixer.weights, head_gate=kind == "headwise", output_gate=kind != "headwise")
    )


FAMILIES: Final[Mapping[str, Family]] = {
    "HYV4ForCausalLM": Family(_hy_v4, hyper_connections=_hy_v4_streams),
    "Dots3NoteForCausalLM": Family(_dots3_note, multimodal=True, tied=False),
}
