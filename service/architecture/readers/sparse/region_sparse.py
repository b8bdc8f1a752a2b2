"""Attention with heads over regions of tokens that an indexer selects: Step 5."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from service.architecture.config import Config, InvalidConfig
from service.architecture.layers.attention import Attention, AttentionWeights, QueryKeyNorm
from service.architecture.layers.decoder_layer import DecoderLayer
from service.architecture.layers.experts import MixtureOfExperts
from service.architecture.layers.feed_forward import DenseFeedForward
from service.architecture.layers.model_ends import ModelEnds
from service.architecture.layers.sparse_indexers import RegionIndexer
from service.architecture.readers.recipes.family import Family, head_size, layer_types, num_layers
from service.architecture.readers.recipes.recipe import Sparse

SLIDING, FULL = "sliding_attention", "full_attention"
REGION: Final = 8
KEY_SIZE: Final = 256
"""vLLM 0.33.0, models/step5/nvidia/config.py: other sizes are refused."""
_EXPERTS: Final = Sparse(
    count=("moe_num_experts",),
    per_token=("moe_top_k",),
    shared_width=("share_expert_dim",),
    router_bias=True,
    router_float32=True,
)


def _layers(text: Config) -> tuple[DecoderLayer, ...]:
    """Source: vLLM 0.33.0, models/step5/nvidia/model.py Step5DecoderLayer."""
    count = num_layers(text)
    # Without types, odd layers have full attention.
    types = layer_types(text) or tuple(FULL if index % 2 else SLIDING for index in range(count))
    indexer, routed = _indexer(text), _routed(text, count)
    experts, plain = _experts(text), DenseFeedForward(text.integer("intermediate_size"))
    return tuple(
        DecoderLayer(
            _attention(text, types[index], indexer),
            experts if index in routed else plain,
            norms=2 * _norm_width(text),
            feed_forward_name="moe" if index in routed else "mlp",
        )
        for index in range(count)
    )


def _attention(text: Config, kind: str, indexer: RegionIndexer | None) -> Attention:
    other = text.section("attention_other_setting")
    part = other if other is not None and other.text("attention_type") == kind else text
    window = text.optional_integer("sliding_window") if kind == SLIDING else None
    heads = part.count("num_attention_heads")
    if window is not None:
        heads = text.count("swa_num_attention_heads", default=heads)
    size = part.integer("head_dim", default=head_size(text))
    gated = text.boolean("use_head_wise_attn_gate")
    selecting = indexer if kind == FULL else None
    if selecting is not None and not gated:
        raise InvalidConfig(text.at("use_head_wise_attn_gate"), "must be true where regions are selected")
    return Attention(
        num_heads=heads,
        num_kv_heads=part.count("num_attention_groups"),
        head_size=size,
        head_size_v=size,
        sliding_window=window,
        flash=selecting is None,
        region_indexer=selecting,
        weights=AttentionWeights(
            query_key_norm=QueryKeyNorm.PER_HEAD if _norm_width(text) == 1 else QueryKeyNorm.PER_HEAD_FLOAT32,
            head_gate=gated,
        ),
    )


def _norm_width(text: Config) -> int:
    """Return the size of a norm's weight in elements of the model's dtype: two where norms have 32 bits."""
    return 2 if text.text("norm_dtype", default="bf16").lower() in {"fp32", "float32"} else 1


def _indexer(text: Config) -> RegionIndexer | None:
    specified = text.section("sparse_config")
    if specified is None:
        raise InvalidConfig(text.at("sparse_config"), "is missing: the engine runs no checkpoint without it")
    if specified.fields.get("enabled") is False:
        return None
    providers = specified.count("index_tp_size", "num_provider_groups", default=4)
    heads = specified.count("sparse_indexer_num_heads", default=16)
    if heads % providers or heads // providers not in {2, 4}:
        raise InvalidConfig(
            specified.at("sparse_indexer_num_heads"), "must be 2 or 4 for each provider group"
        )
    if providers != text.count("num_attention_groups"):
        raise InvalidConfig(specified.at("index_tp_size"), "must be num_attention_groups")
    for name, size in (("region_block_size", REGION), ("proxy_dim", KEY_SIZE)):
        if specified.integer(name, default=size) != size:
            raise InvalidConfig(specified.at(name), f"must be {size}")
    return RegionIndexer(heads, KEY_SIZE, providers, REGION)


def _experts(text: Config) -> MixtureOfExperts:
    for name in ("use_moe_router_bias", "need_fp32_gate"):
        if not text.boolean(name):
            raise InvalidConfig(text.at(name), "must be true")
    experts = _EXPERTS.read(text)
    shared = experts.shared_intermediate_size or experts.intermediate_size * experts.experts_per_token
    return replace(experts, shared_intermediate_size=shared)


def _routed(text: Config, count: int) -> frozenset[int]:
    if "moe_layer_list" in text:
        return frozenset(text.counts("moe_layer_list"))
    enum = text.text("moe_layers_enum")
    specified = frozenset(int(part) for part in enum.split(",") if part.strip().isdigit())
    return specified if enum else frozenset(range(1, count))


FAMILIES: Final[Mapping[str, Family]] = {
    "Step5ForCausalLM": Family(_layers, ends=lambda text: ModelEnds(norm_weights=_norm_width(text))),
}
