"""GLM-5 Next: delta attention with a decay per channel, and latent attention over picked groups of tokens."""

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
from service.architecture.layers import DecoderLayer, HyperConnections, Indexer
from service.architecture.recurrence import KimiDeltaAttention

GROUP: Final = 16
"""Tokens whose keys become one."""
_EXPERTS: Final = Sparse(count=("n_routed_experts",), shared_count=("n_shared_experts",), router_bias=True)


def _layers(text: Config) -> tuple[DecoderLayer, ...]:
    """Source: vLLM 0.31.0 to 0.33.0, models/glm5next/common/model.py Glm5NextDecoderLayer."""
    count, types, networks = num_layers(text), layer_types(text), text.texts("mlp_layer_types")
    full, state = replace(mla_attention(text), indexer=_indexer(text)), _state(text)
    experts, plain = _EXPERTS.read(text), dense(text)
    if networks and len(networks) != count:
        words = f"has {len(networks)} entries for {count} layers"
        raise InvalidConfig(text.at("mlp_layer_types"), words)
    return tuple(
        DecoderLayer(
            state if types and types[index] == "linear_attention" else full,
            experts if not networks or networks[index] == "sparse" else plain,
            mixer_name="self_attn",
        )
        for index in range(count)
    )


def _indexer(text: Config) -> Indexer | None:
    if "index_topk" not in text:
        return None
    if text.count("index_kpool") != GROUP:
        raise InvalidConfig(text.at("index_kpool"), f"must be {GROUP}, of which kernels' blocks are known")
    return Indexer(
        num_heads=text.count("index_n_heads"),
        head_dim=text.integer("index_head_dim"),
        top_k=text.integer("index_topk"),
        group_size=GROUP,
    )


def _state(text: Config) -> KimiDeltaAttention:
    return KimiDeltaAttention(
        num_heads=text.count("linear_num_heads"),
        head_dim=text.integer("linear_head_dim"),
        conv_kernel=text.count("linear_conv_kernel_dim", minimum=2),
        exports_states=text.fields.get("linear_lower_bound") is not None,
    )


def _hyper_connections(text: Config) -> HyperConnections | None:
    if not text.boolean("mhc", default=True):
        return None
    return HyperConnections(text.count("hc_mult"), mixed=True, merged_everywhere=False, summed=True)


FAMILIES: Final[Mapping[str, Family]] = {
    "Glm5NextForCausalLM": Family(
        _layers, hyper_connections=_hyper_connections, attention_layers_specified=False, tied=False
    )
}
