"""Learned positions or ALiBi, plain feed-forward networks, layer norms with biases: GPT-2 to MPT."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from service.architecture.config import Config
from service.architecture.encoders.queried_patches import no_qwen_vl
from service.architecture.layers.attention import Attention, AttentionWeights, QueryKeyNorm
from service.architecture.layers.decoder_layer import DecoderLayer
from service.architecture.layers.feed_forward import DenseFeedForward
from service.architecture.layers.model_ends import ModelEnds
from service.architecture.layers.stage_frame import ALL_EVERYWHERE
from service.architecture.readers.recipes.family import Family, lacking_in_both, num_layers
from service.architecture.readers.recipes.recipe import LAYER_NORM, Decoder
from service.architecture.readers.recipes.windows import no_layer

OPT_OFFSET: Final = 2
"""Rows of OPT's table before the first position (vLLM 0.32.0, OPTLearnedPositionalEmbedding)."""

BIASED: Final = Decoder(
    qkv_bias=True,
    output_bias=True,
    mlp_bias=True,
    gated=False,
    norms=2 * LAYER_NORM,
    windows=no_layer,
    own_keys=True,
)


def _learned_positions(text: Config) -> ModelEnds:
    return ModelEnds(norm_weights=LAYER_NORM, position_rows=text.integer("max_position_embeddings"))


def _layer_norm(_: Config) -> ModelEnds:
    return ModelEnds(norm_weights=LAYER_NORM)


def _biased_output(_: Config) -> ModelEnds:
    return ModelEnds(norm_weights=LAYER_NORM, output_bias=True)


def _bloom_ends(_: Config) -> ModelEnds:
    return ModelEnds(norm_weights=LAYER_NORM, embedding_norm_weights=LAYER_NORM)


def _one_key_head(text: Config, layers: tuple[DecoderLayer, ...]) -> tuple[DecoderLayer, ...]:
    return tuple(
        replace(layer, mixer=replace(layer.mixer, num_kv_heads=1))
        if isinstance(layer.mixer, Attention) and text.boolean("multi_query", default=True)
        else layer
        for layer in layers
    )


def _big_code(text: Config) -> tuple[DecoderLayer, ...]:
    return _one_key_head(text, BIASED(text))


def _gpt_neox(text: Config) -> tuple[DecoderLayer, ...]:
    biased = text.boolean("attention_bias", default=True)
    return replace(BIASED, qkv_bias=biased, output_bias=biased)(text)


def _jais(text: Config) -> tuple[DecoderLayer, ...]:
    gated = text.text("activation_function") == "swiglu"
    return replace(BIASED, gated=gated, alibi=_jais_alibi(text))(text)


def _jais_alibi(text: Config) -> bool:
    return text.text("position_embedding_type", default="learned") == "alibi"


def _jais_ends(text: Config) -> ModelEnds:
    return _layer_norm(text) if _jais_alibi(text) else _learned_positions(text)


def _opt(text: Config) -> tuple[DecoderLayer, ...]:
    bias = text.boolean("enable_bias", default=True)
    norms = 2 * LAYER_NORM if text.boolean("layer_norm_elementwise_affine", default=True) else 0
    read = replace(BIASED, qkv_bias=bias, output_bias=bias, mlp_bias=bias, norms=norms, even_heads=True)
    return read(text)


def _opt_ends(text: Config) -> ModelEnds:
    hidden = text.integer("hidden_size")
    width = text.integer("word_embed_proj_dim", default=hidden)
    normed = text.boolean("do_layer_norm_before", default=True) and not text.boolean(
        "_remove_final_layer_norm"
    )
    affine = text.boolean("layer_norm_elementwise_affine", default=True)
    return ModelEnds(
        norm_weights=LAYER_NORM if normed and affine else 0,
        position_rows=text.integer("max_position_embeddings") + OPT_OFFSET,
        embedding_size=None if width == hidden else width,
    )


def _mpt(text: Config) -> tuple[DecoderLayer, ...]:
    bias = not text.boolean("no_bias", default=True)
    attention = text.section("attn_config")
    hidden = text.integer("hidden_size")
    heads = text.count("num_attention_heads")
    size = max(1, hidden // heads)
    mixer = Attention(
        num_heads=heads,
        num_kv_heads=heads if attention is None else attention.count("kv_n_heads", default=heads),
        head_size=size,
        head_size_v=size,
        alibi=True,
        weights=AttentionWeights(
            qkv_bias=bias,
            output_bias=bias,
            query_key_norm=QueryKeyNorm.WHOLE
            if attention is not None and attention.boolean("qk_ln")
            else QueryKeyNorm.NONE,
        ),
    )
    width = hidden * text.count("expansion_ratio", default=4)
    layer = DecoderLayer(mixer, DenseFeedForward(width, gated=False, bias=bias), _mpt_norm(text) * 2)
    return (layer,) * num_layers(text)


def _mpt_norm(text: Config) -> int:
    return 1 if text.boolean("no_bias", default=True) else LAYER_NORM


def _falcon(text: Config) -> tuple[DecoderLayer, ...]:
    heads = text.count("num_attention_heads")
    hidden = text.integer("hidden_size")
    bias = text.boolean("bias")
    size = max(1, hidden // heads)
    mixer = Attention(
        num_heads=heads,
        num_kv_heads=_falcon_kv_heads(text, heads),
        head_size=size,
        head_size_v=size,
        alibi=text.boolean("alibi"),
        weights=AttentionWeights(
            qkv_bias=bias,
            output_bias=bias,
        ),
    )
    network = DenseFeedForward(4 * hidden, gated=False, bias=bias)
    return (DecoderLayer(mixer, network, LAYER_NORM * _falcon_norms(text)),) * num_layers(text)


def _falcon_kv_heads(text: Config, heads: int) -> int:
    """Source: vLLM 0.32.0, FalconAttention.__init__."""
    if _has_new_decoder(text):
        return text.count("num_kv_heads", "n_head_kv", default=1 if _is_refined_web(text) else heads)
    return 1 if text.boolean("multi_query", default=True) else heads


def _has_new_decoder(text: Config) -> bool:
    return text.boolean("new_decoder_architecture") or (
        _is_refined_web(text) and text.integer("hidden_size") == FALCON_40B
    )


def _falcon_norms(text: Config) -> int:
    if _has_new_decoder(text):
        in_parallel = text.count("num_ln_in_parallel_attn", default=2)
        return in_parallel if text.boolean("parallel_attn", default=True) else max(2, in_parallel)
    return 1 if text.boolean("parallel_attn", default=True) else 2


ROTATION: Final = (
    "rope_theta",
    "rotary_emb_base",
    "rope_parameters",
    "rope_scaling",
    "partial_rotary_factor",
    "rotary_pct",
    "rotary_emb_fraction",
    "original_max_position_embeddings",
)
"""Fields of which one is enough with transformers 4 (vLLM 0.20.2, patch_rope_parameters; 0.20.2 asked)."""
FALCON_40B: Final = 8192
"""Hidden size that means the new decoder, whatever the config says: vLLM 0.20.2 to 0.33.0, RWConfig."""
BASES: Final = ROTATION[:2]
TABLES: Final = ROTATION[2:4]
"""With transformers 5, a base or a table is needed; a table that is ``null`` is one, too."""


def _falcon_lacks(config: Config, text: Config) -> tuple[str, ...]:
    """Return what a config of the engine's own class lacks: of its rotation, and ``tie_word_embeddings``.

    Source: vLLM 0.12.0 to 0.33.0, FalconAttention and FalconForCausalLM, transformers_utils/configs/falcon.py
    RWConfig, and patch_rope_parameters of config.py; asked of 0.20.2, 0.26.0 and 0.33.0.
    """
    if not _is_refined_web(text):
        return ()
    return (*_lacking_rotation(text), *lacking_in_both("tie_word_embeddings")(config, text))


def _lacking_rotation(text: Config) -> tuple[str, ...]:
    if text.boolean("alibi"):
        return ()
    based = any(name in text for name in BASES)
    table = next((part for name in TABLES if (part := text.section(name))), None)
    absent = {
        "rope_parameters": not any(name in text for name in ROTATION)
        and "rope_parameters" not in text.fields,
        "rotation": not based and not any(name in text.fields for name in TABLES),
        "rope_theta": not based and table is not None and bool(table.fields) and "rope_theta" not in table,
    }
    return tuple(name for name, lacks in absent.items() if lacks)


def _is_refined_web(text: Config) -> bool:
    """Whether the engine's own config class reads it: vLLM 0.10.2 to 0.33.0, RWConfig."""
    return text.text("model_type") in {"RefinedWeb", "RefinedWebModel"}


def _baichuan(text: Config) -> tuple[DecoderLayer, ...]:
    """Read Baichuan; sizes above 7B have ALiBi (vLLM 0.24.0, BaichuanForCausalLM)."""
    return Decoder(alibi=text.integer("hidden_size") != BAICHUAN_7B, windows=no_layer, own_keys=True)(text)


BAICHUAN_7B: Final = 4096
"""Hidden size of the 7B models, the only ones with rotary positions."""


def _qwen(text: Config) -> tuple[DecoderLayer, ...]:
    """Read the first Qwen, whose ``intermediate_size`` is the sum of gate and up."""
    recipe = Decoder(qkv_bias=True, windows=no_layer, own_keys=True)
    half = DenseFeedForward(max(1, text.integer("intermediate_size") // 2))
    return tuple(replace(layer, feed_forward=half) for layer in recipe(text))


_PERSIMMON: Final = replace(BIASED, norm=QueryKeyNorm.PER_HEAD_AND_BIAS, norm_if=("qk_layernorm",))
_PHI: Final = replace(BIASED, norms=LAYER_NORM, own_keys=False)
"""Phi as the transformers library builds it."""


def _phi(text: Config) -> tuple[DecoderLayer, ...]:
    """Read Phi as the engine's own class builds it: every head has its keys, and the width has its own field.

    Source: vLLM 0.20.2 to 0.29.0, phi.py PhiAttention and PhiMLP; 0.20.2, 0.26.0 and 0.29.0 asked.
    """
    width = text.integer("n_inner", default=4 * text.integer("hidden_size"))
    own = replace(_PHI, own_keys=True)
    return tuple(
        replace(layer, feed_forward=replace(own.dense(text), intermediate_size=width)) for layer in own(text)
    )


_FALCON: Final = Family(
    _falcon, tied_by_default=True, ends=_layer_norm, frame=ALL_EVERYWHERE, lacks=_falcon_lacks
)
_MPT: Final = Family(
    _mpt,
    tied=True,
    ends=lambda text: ModelEnds(norm_weights=_mpt_norm(text)),
    frame=ALL_EVERYWHERE,
)

FAMILIES: Final[Mapping[str, Family]] = {
    "BaiChuanForCausalLM": Family(Decoder(windows=no_layer, own_keys=True), frame=ALL_EVERYWHERE),
    "BaichuanForCausalLM": Family(_baichuan, frame=ALL_EVERYWHERE),
    "BloomForCausalLM": Family(
        replace(BIASED, alibi=True), tied_by_default=True, ends=_bloom_ends, frame=ALL_EVERYWHERE
    ),
    "FalconForCausalLM": _FALCON,
    "RWForCausalLM": _FALCON,
    "GPT2LMHeadModel": Family(BIASED, tied_by_default=True, ends=_learned_positions, frame=ALL_EVERYWHERE),
    "GPTBigCodeForCausalLM": Family(
        _big_code,
        tied_by_default=True,
        ends=_learned_positions,
        frame=ALL_EVERYWHERE,
    ),
    "GPTJForCausalLM": Family(
        replace(BIASED, qkv_bias=False, output_bias=False, norms=LAYER_NORM),
        ends=_biased_output,
        frame=ALL_EVERYWHERE,
    ),
    "GPTNeoXForCausalLM": Family(_gpt_neox, ends=_layer_norm, frame=ALL_EVERYWHERE),
    "JAISLMHeadModel": Family(_jais, tied_by_default=True, ends=_jais_ends, frame=ALL_EVERYWHERE),
    "Jais2ForCausalLM": Family(
        replace(
            BIASED,
            qkv_bias=("attention_bias",),
            output_bias=("attention_bias",),
            mlp_bias=("mlp_bias",),
            own_keys=False,
        ),
        ends=_layer_norm,
    ),
    "MPTForCausalLM": _MPT,
    "MptForCausalLM": _MPT,
    "OPTForCausalLM": Family(_opt, tied_by_default=True, ends=_opt_ends, frame=ALL_EVERYWHERE),
    "PersimmonForCausalLM": Family(_PERSIMMON, tied=False, ends=_layer_norm, frame=ALL_EVERYWHERE),
    "PhiForCausalLM": Family(_phi, ends=_biased_output, frame=ALL_EVERYWHERE, attending_layers=_PHI),
    "QWenLMHeadModel": Family(_qwen, frame=ALL_EVERYWHERE, towers=no_qwen_vl),
}
