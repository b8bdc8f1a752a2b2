"""HY V4: latent attention over picked tokens with gates and sinks, and several copies of the hidden state."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from service.architecture.config import Config, InvalidConfig
from service.architecture.families.deepseek import mla_attention
from service.architecture.families.family import (
    Family,
    dense,
    layer_types,
    num_layers,
)
from service.architecture.families.recipe import Sparse
from service.architecture.layers import (
    DecoderLayer,
    HyperConnections,
    Indexer,
    MultiHeadLatentAttention,
)

SPARSE_TYPES: Final = frozenset(
    {"sparse_attention", "sparse", "indexed_attention", "deepseek_sparse_attention"}
)
"""vLLM 0.29.0 to 0.33.0, hy_v4/nvidia/attention.py _SPARSE_LAYER_TYPES."""
ELEMENTWISE, HEADWISE = "elementwise", "headwise"
_EXPERTS: Final = Sparse(
    count=("n_routed_experts",), shared_count=("n_shared_experts",), router_bias=True, router_float32=True
)


def _layers(text: Config) -> tuple[DecoderLayer, ...]:
    """Source: vLLM 0.29.0 to 0.33.0, HYV4DecoderLayer and HYV4MLAAttention."""
    mixer, experts, plain = _attention(text), _EXPERTS.read(text), dense(text)
    selects, routed = _indexers(text), _routed(text)
    return tuple(
        DecoderLayer(replace(mixer, indexer=indexer), experts if sparse else plain)
        for indexer, sparse in zip(selects, routed, strict=True)
    )


def _attention(text: Config) -> MultiHeadLatentAttention:
    gate = text.text("gating_type") if text.boolean("gated_mla") else ""
    if gate not in {"", ELEMENTWISE, HEADWISE}:
        raise InvalidConfig(text.at("gating_type"), f"must be {ELEMENTWISE} or {HEADWISE}")
    return replace(
        mla_attention(text),
        output_gate=gate == ELEMENTWISE,
        head_gate=gate == HEADWISE,
        sinks=text.boolean("learnable_sink"),
    )


def _indexers(text: Config) -> tuple[Indexer | None, ...]:
    """Return what picks the tokens of each layer; layers of no type that picks look at all."""
    count, types = num_layers(text), layer_types(text)
    anew = Indexer(text.count("index_n_heads"), text.integer("index_head_dim"), text.integer("index_topk"))
    again = replace(anew, reuses_selection=True)
    shared = _each(text, "indexer_types", count) or tuple(
        "full" if index == 0 or index % 4 == 1 else "shared" for index in range(count)
    )
    selects = tuple(again if kind == "shared" else anew for kind in shared)
    return tuple(
        pick if types and types[index] in SPARSE_TYPES else None for index, pick in enumerate(selects)
    )


def _routed(text: Config) -> tuple[bool, ...]:
    """Say which layers have experts: all but the first where the config does not tell."""
    count = num_layers(text)
    specified = _each(text, "mlp_layer_types", count)
    return tuple(kind != "dense" for kind in specified) or tuple(index > 0 for index in range(count))


def _each(text: Config, name: str, count: int) -> tuple[str, ...]:
    specified = text.texts(name)
    if specified and len(specified) != count:
        raise InvalidConfig(text.at(name), f"has {len(specified)} entries for {count} layers")
    return specified


def _hyper_connections(text: Config) -> HyperConnections | None:
    if not text.boolean("enable_ihc"):
        return None
    return HyperConnections(text.count("hc_mult"), mixed=False, merged_everywhere=False)


FAMILIES: Final[Mapping[str, Family]] = {
    "HYV4ForCausalLM": Family(_layers, hyper_connections=_hyper_connections)
}
