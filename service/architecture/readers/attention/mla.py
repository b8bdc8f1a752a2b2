"""Multi-head latent attention (MLA): DeepSeek V2, V3 and R1, Kimi K2, LongCat and their variants."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from service.architecture.config import Config, InvalidConfig
from service.architecture.encoders import moon_patches
from service.architecture.layers.attention import Attention, AttentionWeights
from service.architecture.layers.decoder_layer import DecoderLayer, FeedForward, Mixer
from service.architecture.layers.experts import ExpertWeights, MixtureOfExperts
from service.architecture.layers.mla import MlaWeights, MultiHeadLatentAttention
from service.architecture.layers.model_ends import ModelEnds, NgramTables
from service.architecture.layers.sparse_indexers import Indexer
from service.architecture.layers.stage_frame import ALL_EVERYWHERE
from service.architecture.readers.recipes.family import (
    Family,
    dense,
    head_size,
    lacking_original_length,
    num_kv_heads,
    num_layers,
)
from service.architecture.readers.recipes.recipe import Sparse


def mla_attention(text: Config) -> MultiHeadLatentAttention:
    """Return MLA by the fields of DeepSeek's configs."""
    return MultiHeadLatentAttention(
        num_heads=text.count("num_attention_heads"),
        kv_lora_rank=text.integer("kv_lora_rank"),
        qk_nope_head_dim=text.integer("qk_nope_head_dim"),
        qk_rope_head_dim=text.integer("qk_rope_head_dim", minimum=0),
        weights=MlaWeights(
            q_lora_rank=text.optional_integer("q_lora_rank"),
            v_head_dim=text.integer("v_head_dim", default=head_size(text)),
            qkv_bias=text.boolean("attention_bias"),
        ),
    )


def indexer(text: Config, index: int) -> Indexer | None:
    """Return the indexer of one layer, or ``None`` where the model has none.

    A layer has its own selection by ``index_topk_pattern``, or every ``index_topk_freq`` layers.
    Source: vLLM 0.24.0, DeepseekV2MLAAttention.
    """
    if "index_topk" not in text:
        return None
    pattern = text.fields.get("index_topk_pattern")
    if isinstance(pattern, str):
        reuses = pattern[index : index + 1] == "S"
    else:
        offset = text.integer("index_skip_topk_offset", default=2, minimum=0)
        reuses = max(index - offset + 1, 0) % text.count("index_topk_freq", default=1) != 0
    return Indexer(
        num_heads=text.count("index_n_heads"),
        head_dim=text.integer("index_head_dim"),
        top_k=text.integer("index_topk"),
        reuses_selection=reuses,
    )


def deepseek_experts(text: Config) -> MixtureOfExperts:
    """Return the routed and shared experts of a layer."""
    width = text.integer("moe_intermediate_size")
    return MixtureOfExperts(
        num_experts=text.count("n_routed_experts"),
        experts_per_token=text.count("num_experts_per_tok"),
        intermediate_size=width,
        shared_intermediate_size=width * text.count("n_shared_experts", default=0, minimum=0),
        weights=ExpertWeights(
            # The noaux_tc router corrects its scores by a learned bias: vLLM 0.32.0, DeepseekV2MoE.
            router_bias=text.text("topk_method") == "noaux_tc",
            plain_softmax=text.text("scoring_func", default="softmax") == "softmax"
            and not text.boolean("norm_topk_prob"),
        ),
    )


def _deepseek(text: Config) -> tuple[DecoderLayer, ...]:
    """Read DeepSeek's layers; those without sizes of MLA have plain attention, e.g. in DeepSeek-OCR.

    Source: vLLM 0.10.2 to 0.33.0, DeepseekV2DecoderLayer and DeepseekAttention.
    """
    mixer = _plain_attention(text) if _has_no_mla(text) else _by_type(text)
    first_sparse = text.count("first_k_dense_replace", default=0, minimum=0)
    every = text.count("moe_layer_freq", default=1)

    def feed_forward(index: int) -> FeedForward:
        sparse = "n_routed_experts" in text and index >= first_sparse and index % every == 0
        return deepseek_experts(text) if sparse else dense(text)

    def with_indexer(index: int) -> Mixer:
        if isinstance(mixer, Attention):
            return mixer
        return replace(mixer, indexer=indexer(text, index))

    return tuple(DecoderLayer(with_indexer(index), feed_forward(index)) for index in range(num_layers(text)))


def _has_no_mla(text: Config) -> bool:
    return all(
        text.optional_integer(name, minimum=0) == 0 for name in ("qk_nope_head_dim", "qk_rope_head_dim")
    )


FULL_HEADS: Final = frozenset({"mistral4"})
"""Types of configs with sizes of MLA for which the engine stores keys and values in full.

Source: vLLM 0.26.0 to 0.33.0, ModelArchConfigConvertorBase.is_deepseek_mla, DeepseekV2Attention.
"""


def _by_type(text: Config) -> Attention | MultiHeadLatentAttention:
    mixer = mla_attention(text)
    return _in_full(mixer) if text.text("model_type") in FULL_HEADS else mixer


def _in_full(mla: MultiHeadLatentAttention) -> Attention:
    """Return attention with projections of MLA, and full keys and values in the cache."""
    heads, size = mla.num_heads, mla.qk_nope_head_dim + mla.qk_rope_head_dim
    return Attention(heads, heads, size, size, weights=AttentionWeights(low_rank=mla))


def _plain_attention(text: Config) -> Attention:
    heads = text.count("num_attention_heads")
    size = max(1, text.integer("hidden_size") // heads)
    return Attention(heads, num_kv_heads(text), size, size)


def _sandwiched(norms: int, always_biased: bool = False) -> Callable[[Config], tuple[DecoderLayer, ...]]:
    """Return a reader of layers with more norms; ``always_biased`` gives every router a bias."""

    def layers(text: Config) -> tuple[DecoderLayer, ...]:
        return tuple(
            replace(layer, norms=norms, feed_forward=_corrected(layer.feed_forward, always_biased))
            for layer in _deepseek(text)
        )

    return layers


def _corrected(network: FeedForward, always_biased: bool) -> FeedForward:
    if always_biased and isinstance(network, MixtureOfExperts):
        return replace(network, weights=replace(network.weights, router_bias=True))
    return network


def _axk1(text: Config) -> tuple[DecoderLayer, ...]:
    corrected = text.text("topk_method", default="noaux_tc") == "noaux_tc"
    return _sandwiched(3, corrected)(text)


def _glm4_lite(text: Config) -> tuple[DecoderLayer, ...]:
    """Read GLM-4.7-Flash: DeepSeek's layers with a router in 32 bits (vLLM 0.32.0, Glm4MoeLite)."""
    return tuple(
        replace(
            layer,
            feed_forward=replace(
                layer.feed_forward, weights=replace(layer.feed_forward.weights, router_float32=True)
            ),
        )
        if isinstance(layer.feed_forward, MixtureOfExperts)
        else layer
        for layer in _sandwiched(2, always_biased=True)(text)
    )


def _sarvam(text: Config) -> tuple[DecoderLayer, ...]:
    """Read Sarvam: MLA, and experts under Bailing's field names.

    Source: vLLM 0.32.0, SarvamMLABlock and SarvamMLAMoE, which also have the defaults.
    """
    mixer, plain, count = mla_attention(text), dense(text), num_layers(text)
    if "num_experts" not in text:
        return (DecoderLayer(mixer, plain),) * count
    width = text.integer("moe_intermediate_size")
    shared = text.integer("moe_shared_expert_intermediate_size", default=width)
    experts = MixtureOfExperts(
        num_experts=text.count("num_experts"),
        experts_per_token=text.count("num_experts_per_tok"),
        intermediate_size=width,
        shared_intermediate_size=shared * text.count("num_shared_experts", default=1, minimum=0),
        weights=ExpertWeights(router_bias=text.boolean("moe_router_enable_expert_bias", default=True)),
    )
    first = text.count("first_k_dense_replace", default=1, minimum=0)
    every = text.count("moe_layer_freq", default=1)
    return tuple(
        DecoderLayer(mixer, experts if index >= first and (index - first) % every == 0 else plain)
        for index in range(count)
    )


def _pangu(text: Config) -> tuple[DecoderLayer, ...]:
    corrected = text.boolean("router_enable_expert_bias")
    return _sandwiched(4 if text.boolean("sandwich_norm") else 2, corrected)(text)


def _pangu_pro(text: Config) -> tuple[DecoderLayer, ...]:
    """Read openPangu Pro MoE V2: Pangu Ultra's layers, with stored sinks in place of MLA.

    Source: vLLM 0.32.0, openpangu.OpenPanguDecoderLayer and OpenPanguSinkAttention.
    """
    if all(name in text for name in ("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "kv_lora_rank")):
        return _pangu(text)
    bias = text.boolean("attention_bias") or text.boolean("bias")
    sinks = text.count("param_sink_number", default=0, minimum=0)
    size = text.integer("qk_nope_dim") + text.integer("qk_rope_dim") if sinks else head_size(text)
    mixer = Attention(
        text.count("num_attention_heads"),
        num_kv_heads(text),
        size,
        text.integer("v_channels") if sinks else size,
        stored_sinks=sinks,
        weights=AttentionWeights(
            qkv_bias=text.boolean("qkv_bias", default=bias),
            output_bias=bias,
            sink_values=text.boolean("param_sink_with_value"),
        ),
    )
    first = text.count("first_k_dense_replace", default=0, minimum=0)
    sparse = Sparse(
        count=("n_routed_experts",),
        shared_count=("n_shared_experts",),
        router_bias=("router_enable_expert_bias",),
    )
    experts = sparse.read(text) if "n_routed_experts" in text else None
    plain = dense(text, bias=text.boolean("mlp_bias"))
    norms = 4 if text.boolean("sandwich_norm") else 2
    return tuple(
        DecoderLayer(mixer, plain if experts is None or index < first else experts, norms)
        for index in range(num_layers(text))
    )


def _minicpm3(text: Config) -> tuple[DecoderLayer, ...]:
    """Read MiniCPM 3: projections of MLA, with full keys and values in the cache.

    Source: vLLM 0.32.0, MiniCPM3Attention.
    """
    return (DecoderLayer(_in_full(mla_attention(text)), dense(text)),) * num_layers(text)


def _longcat(text: Config) -> tuple[DecoderLayer, ...]:
    """Read LongCat-Flash: a layer has two attentions and two dense networks, and experts in parallel.

    Source: vLLM 0.32.0, longcat_flash.FlashDecoderLayer.
    """
    if text.texts("disable_quant_module"):
        raise InvalidConfig(text.at("disable_quant_module"), "unquantized modules are not modelled yet")
    mixer = mla_attention(text)
    network = dense(text)
    experts = MixtureOfExperts(
        num_experts=text.count("n_routed_experts"),
        experts_per_token=text.count("moe_topk"),
        intermediate_size=text.integer("moe_intermediate_size"),
        shared_intermediate_size=network.intermediate_size,
        weights=ExpertWeights(
            router_bias=True,
            router_float32=True,
            zero_experts=text.count("zero_expert_num", default=0, minimum=0),
        ),
    )
    pair = (
        DecoderLayer(mixer, experts, mixer_name="self_attn.0"),
        DecoderLayer(mixer, network, mixer_name="self_attn.1", feed_forward_name="mlps.1"),
    )
    return pair * text.layers("num_layers")


def _longcat_ends(text: Config) -> ModelEnds:
    """Return the n-gram tables (vLLM 0.32.0, longcat_flash_ngram.NgramEmbedding)."""
    if "ngram_vocab_size_ratio" not in text:
        return ModelEnds()
    smallest = text.count("ngram_vocab_size_ratio") * text.integer("vocab_size")
    tables = text.count("emb_split_num") * (text.count("emb_neighbor_num", minimum=2) - 1)
    rows = sum(smallest + 2 * table + 1 for table in range(tables))
    return ModelEnds(ngrams=NgramTables(tables, rows, max(1, text.integer("hidden_size") // tables)))


_DEEPSEEK: Final = Family(_deepseek, tied=False, lacks=lacking_original_length)

FAMILIES: Final[Mapping[str, Family]] = {
    "DeepseekV2ForCausalLM": _DEEPSEEK,
    "DeepseekV3ForCausalLM": _DEEPSEEK,
    "DeepseekV32ForCausalLM": _DEEPSEEK,
    "GlmMoeDsaForCausalLM": _DEEPSEEK,
    "AXK1ForCausalLM": Family(_axk1, tied=False),
    "Glm4MoeLiteForCausalLM": Family(_glm4_lite, tied=False),
    "MiniCPM3ForCausalLM": Family(_minicpm3, tied_by_default=True, frame=ALL_EVERYWHERE),
    "MistralLarge3ForCausalLM": _DEEPSEEK,
    "PanguProMoEV2ForCausalLM": Family(_pangu_pro, tied=False),
    "PanguUltraMoEForCausalLM": Family(_pangu, tied=False),
    "SarvamMLAForCausalLM": Family(_sarvam, tied=False),
    "KimiK25ForConditionalGeneration": replace(_DEEPSEEK, multimodal=True, towers=moon_patches.kimi_k25),
    "LongcatFlashForCausalLM": Family(_longcat, tied=False, attentions_per_layer=2),
    "LongcatFlashNgramForCausalLM": Family(_longcat, tied=False, attentions_per_layer=2, ends=_longcat_ends),
}
