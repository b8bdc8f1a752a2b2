"""Kimi delta attention (KDA) beside MLA or gated attention: Kimi Linear, K3, GLM-5 Next, Ling 3, Alice AI."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from service.architecture.config import Config, InvalidConfig
from service.architecture.layers.decoder_layer import DecoderLayer, FeedForward
from service.architecture.layers.experts import ExpertWeights, MixtureOfExperts
from service.architecture.layers.hidden_streams import HyperConnections
from service.architecture.layers.mla import MultiHeadLatentAttention
from service.architecture.layers.model_ends import ModelEnds
from service.architecture.layers.recurrence import KimiDeltaAttention, KimiK3DeltaAttention
from service.architecture.layers.sparse_indexers import Indexer
from service.architecture.readers.attention.mla import mla_attention
from service.architecture.readers.recipes.family import Family, dense, head_size, layer_types, num_layers
from service.architecture.readers.recipes.recipe import Sparse
from service.architecture.readers.recurrent.gated_delta_net import gated_attention


def _ling3(text: Config) -> tuple[DecoderLayer, ...]:
    """Read Ling 3: MLA is in the last layer of each group, and in all layers after the last whole group.

    Source: vLLM 0.28.0 to 0.33.0, models/bailing_moe_v3.py _is_kda_layer.
    """
    if not text.boolean("no_kda_lora"):
        raise InvalidConfig(
            text.at("no_kda_lora"), "is not true: the engine's class has no low-rank projections"
        )
    state = KimiDeltaAttention(
        num_heads=text.count("num_attention_heads"),
        head_dim=head_size(text),
        conv_kernel=text.count("short_conv_kernel_size"),
        full_rank=True,
    )
    full, group, count = _ling3_attention(text), text.count("layer_group_size"), num_layers(text)
    grouped = count // group * group
    return tuple(
        DecoderLayer(
            state if (index + 1) % group and index < grouped else full,
            _ling3_network(text, index),
            mixer_name="self_attn",
        )
        for index in range(count)
    )


def _ling3_attention(text: Config) -> MultiHeadLatentAttention:
    gate = text.text("gated_attention_proj_granularity_type")
    plain = mla_attention(text)
    weights = replace(
        plain.weights, qkv_bias=False, output_gate=gate == "element_wise", head_gate=gate == "head_wise"
    )
    return replace(plain, weights=weights)


def _ling3_network(text: Config, index: int) -> FeedForward:
    if "num_experts" not in text or index < text.count("first_k_dense_replace", minimum=0):
        return dense(text, bias=text.boolean("use_bias"))
    shared = text.integer("moe_shared_expert_intermediate_size") * text.count("num_shared_experts")
    return MixtureOfExperts(
        num_experts=text.count("num_experts"),
        experts_per_token=text.count("num_experts_per_tok"),
        intermediate_size=text.integer("moe_intermediate_size"),
        shared_intermediate_size=shared,
        weights=ExpertWeights(
            router_bias=True,
            router_float32=True,
        ),
    )


def _alice(text: Config) -> tuple[DecoderLayer, ...]:
    """Read Alice AI: Kimi's delta attention, Qwen's gated attention, and attention over earlier residuals.

    Source: vLLM 0.33.0, models/alice_ai.py AliceAIDecoderBlock.
    """
    types, count = layer_types(text), num_layers(text)
    if not types:
        raise InvalidConfig(text.at("layer_types"), "is missing")
    text.count("block_attn_res_block_size")
    gated = gated_attention(text)
    full = replace(gated, weights=replace(gated.weights, qkv_bias=False, output_gate=True))
    state = KimiDeltaAttention(
        num_heads=text.count("linear_num_key_heads"),
        head_dim=text.integer("linear_key_head_dim"),
        conv_kernel=text.count("linear_conv_kernel_dim"),
    )
    experts = MixtureOfExperts(
        num_experts=text.count("num_experts"),
        experts_per_token=text.count("num_experts_per_tok"),
        intermediate_size=text.integer("moe_intermediate_size"),
        shared_intermediate_size=text.integer("shared_expert_intermediate_size", minimum=0),
        weights=ExpertWeights(
            shared_gate=True,
            router_bias=True,
        ),
    )
    return tuple(
        # Each attention over residuals has a norm and a projection to one number; the first layer has none.
        DecoderLayer(state if types[index] == "linear_attention" else full, experts, norms=6 if index else 4)
        for index in range(count)
    )


KIMI_LEAST_WIDTH: Final = 256
"""vLLM 0.27.0, models/kimi_k3/nvidia/model.py KimiMoE."""


def _kimi(text: Config) -> tuple[DecoderLayer, ...]:
    """Source: vLLM 0.19.0, models/kimi_linear.py and layers/kda.py; 0.32.0, models/kimi_k3."""
    linear = text.section("linear_attn_config") or Config({}, text.at("linear_attn_config"))
    plain = mla_attention(text)
    gate = text.boolean("mla_use_output_gate")
    full = replace(plain, weights=replace(plain.weights, output_gate=gate))
    state, recurrent = _kimi_state(linear), linear.counts("kda_layers")
    # Attention over earlier residuals takes two more norms, and two projections to one number.
    norms = 6 if text.optional_integer("attn_res_block_size") else 2
    return tuple(
        # The config numbers layers from one.
        DecoderLayer(
            state if index + 1 in recurrent else full,
            _kimi_network(text, index),
            norms,
            mixer_name="self_attn",
        )
        for index in range(num_layers(text))
    )


def _kimi_state(linear: Config) -> KimiDeltaAttention | KimiK3DeltaAttention:
    heads, size = linear.count("num_heads"), linear.integer("head_dim")
    kernel = linear.count("short_conv_kernel_size")
    if linear.boolean("use_full_rank_gate"):
        bounded = linear.fields.get("gate_lower_bound") is not None
        return KimiK3DeltaAttention(heads, size, kernel, bounded_gate=bounded)
    return KimiDeltaAttention(heads, size, kernel)


def _kimi_ends(text: Config) -> ModelEnds:
    return ModelEnds(norm_weights=3 if text.optional_integer("attn_res_block_size") else 1)


def _kimi_network(text: Config, index: int) -> FeedForward:
    sparse = (
        "num_experts" in text
        and index >= text.count("first_k_dense_replace", default=0, minimum=0)
        and index % text.count("moe_layer_freq", default=1) == 0
    )
    if not sparse:
        return dense(text)
    width = text.integer("moe_intermediate_size")
    return MixtureOfExperts(
        num_experts=text.count("num_experts"),
        experts_per_token=text.count("num_experts_per_token"),
        intermediate_size=width,
        shared_intermediate_size=width * text.count("num_shared_experts", default=0, minimum=0),
        weights=ExpertWeights(
            router_bias=True,
            latent_size=text.optional_integer("routed_expert_hidden_size"),
            latent_norms=int(text.boolean("latent_moe_use_norm")),
            least_width=text.count("min_moe_intermediate_per_partition", default=KIMI_LEAST_WIDTH),
        ),
    )


GLM5_GROUP: Final = 16
"""Tokens whose keys the indexer pools into one."""
_GLM5_EXPERTS: Final = Sparse(
    count=("n_routed_experts",), shared_count=("n_shared_experts",), router_bias=True
)


def _glm5_next(text: Config) -> tuple[DecoderLayer, ...]:
    """Source: vLLM 0.31.0 to 0.33.0, models/glm5next/common/model.py Glm5NextDecoderLayer."""
    count, types, networks = num_layers(text), layer_types(text), text.texts("mlp_layer_types")
    full, state = replace(mla_attention(text), indexer=_glm5_indexer(text)), _glm5_state(text)
    experts, plain = _GLM5_EXPERTS.read(text), dense(text)
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


def _glm5_indexer(text: Config) -> Indexer | None:
    if "index_topk" not in text:
        return None
    if text.count("index_kpool") != GLM5_GROUP:
        raise InvalidConfig(
            text.at("index_kpool"), f"must be {GLM5_GROUP}, of which kernels' blocks are known"
        )
    return Indexer(
        num_heads=text.count("index_n_heads"),
        head_dim=text.integer("index_head_dim"),
        top_k=text.integer("index_topk"),
        group_size=GLM5_GROUP,
    )


def _glm5_state(text: Config) -> KimiDeltaAttention:
    return KimiDeltaAttention(
        num_heads=text.count("linear_num_heads"),
        head_dim=text.integer("linear_head_dim"),
        conv_kernel=text.count("linear_conv_kernel_dim", minimum=2),
        exports_states=text.fields.get("linear_lower_bound") is not None,
    )


def _glm5_streams(text: Config) -> HyperConnections | None:
    if not text.boolean("mhc", default=True):
        return None
    return HyperConnections(text.count("hc_mult"), mixed=True, merged_everywhere=False, summed=True)


FAMILIES: Final[Mapping[str, Family]] = {
    "BailingMoeV3ForCausalLM": Family(_ling3, attention_layers_specified=False, tied=False),
    "AliceAIForCausalLM": Family(
        _alice,
        tied=False,
        supports_pipeline=False,
        ends=lambda _: ModelEnds(norm_weights=3),
    ),
    "KimiLinearForCausalLM": Family(_kimi, ends=_kimi_ends, attention_layers_specified=False, tied=False),
    "Glm5NextForCausalLM": Family(
        _glm5_next, hyper_connections=_glm5_streams, attention_layers_specified=False, tied=False
    ),
}
