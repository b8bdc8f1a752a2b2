"""Decoders with one dense feed-forward network per layer."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from service.architecture.config import Config, InvalidConfig
from service.architecture.encoders import merged_patches, pooled_crops
from service.architecture.layers.attention import Attention, AttentionWeights, QueryKeyNorm
from service.architecture.layers.decoder_layer import DecoderLayer
from service.architecture.layers.feed_forward import DenseFeedForward
from service.architecture.layers.model_ends import ModelEnds
from service.architecture.layers.stage_frame import ALL_EVERYWHERE
from service.architecture.readers.recipes.family import Family, attention, dense, evenly, num_layers
from service.architecture.readers.recipes.recipe import LAYER_NORM, Decoder
from service.architecture.readers.recipes.windows import by_pattern, by_type, every_layer, no_layer

PER_HEAD: Final = QueryKeyNorm.PER_HEAD
BIAS: Final = ("attention_bias", "bias")
LAYER_NORM_END: Final = ModelEnds(norm_weights=LAYER_NORM)


def _layer_norm_end(_: Config) -> ModelEnds:
    return LAYER_NORM_END


LLAMA: Final = Decoder(qkv_bias=BIAS, output_bias=BIAS, mlp_bias=("mlp_bias",), windows=by_type)


def llama(text: Config) -> tuple[DecoderLayer, ...]:
    """Read a Llama; ``qkv_bias`` replaces ``attention_bias`` for the first projection (InternLM 3).

    Source: vLLM 0.32.0, LlamaDecoderLayer.__init__.
    """
    return replace(LLAMA, qkv_bias=("qkv_bias",))(text) if "qkv_bias" in text else LLAMA(text)


def _tele_chat(text: Config) -> tuple[DecoderLayer, ...]:
    """Read TeleChat 2: only the second projection of each half has a bias (vLLM 0.32.0, TeleChat2Model)."""
    network = DenseFeedForward(text.integer("intermediate_size"), output_bias=True)
    return tuple(replace(layer, feed_forward=network) for layer in Decoder(output_bias=True)(text))


def _chat_glm(text: Config) -> tuple[DecoderLayer, ...]:
    """Read ChatGLM from its second generation on (vLLM 0.20.2 to 0.33.0, GLMAttention and GLMMLP)."""
    if "original_rope" not in text:
        raise InvalidConfig(text.at("original_rope"), "is missing, which the engine's class asks for")
    recipe = Decoder(
        qkv_bias=("add_bias_linear", "add_qkv_bias"),
        output_bias=("add_bias_linear",),
        mlp_bias=("add_bias_linear",),
        norms=2 if text.boolean("rmsnorm", default=True) else 2 * LAYER_NORM,
        windows=no_layer,
    )
    grouped = text.boolean("multi_query_attention")
    heads = text.count("num_attention_heads")
    mixer = replace(
        recipe.attention(text),
        num_kv_heads=text.count("multi_query_group_num", default=1) if grouped else heads,
    )
    return tuple(replace(layer, mixer=mixer) for layer in recipe(text))


def _chat_glm_end(text: Config) -> ModelEnds:
    weights = 1 if text.boolean("rmsnorm", default=True) else LAYER_NORM
    return ModelEnds(norm_weights=weights if text.boolean("post_layer_norm", default=True) else 0)


def _molmo(text: Config) -> tuple[DecoderLayer, ...]:
    """Read Molmo, whose ``intermediate_size`` is the sum of gate and up (vLLM 0.32.0, MolmoAttention)."""
    recipe = Decoder(
        qkv_bias=("qkv_bias",),
        norm=QueryKeyNorm.WHOLE,
        norm_if=("attention_layer_norm",),
        windows=no_layer,
    )
    half = DenseFeedForward(max(1, text.integer("intermediate_size") // 2))
    return tuple(replace(layer, feed_forward=half) for layer in recipe(text))


def _molmo2(text: Config) -> tuple[DecoderLayer, ...]:
    """Read Molmo 2 (vLLM 0.32.0, Molmo2Attention)."""
    per_head = text.text("qk_norm_type") == "qwen3"
    return Decoder(
        qkv_bias=("qkv_bias",),
        norm=PER_HEAD if per_head else QueryKeyNorm.WHOLE,
        norm_if=("use_qk_norm",),
        windows=no_layer,
    )(text)


_CHAT_GLM: Final = Family(_chat_glm, ends=_chat_glm_end, frame=ALL_EVERYWHERE)
_TELE_CHAT: Final = Family(_tele_chat)


def _hyper_clova(text: Config) -> tuple[DecoderLayer, ...]:
    return replace(LLAMA, norms=4 if text.boolean("use_post_norm") else 2)(text)


_NO_BIAS: Final = Decoder(windows=every_layer)
_NORMED: Final = Decoder(norm=PER_HEAD, windows=by_type)
_OLMO2: Final = Decoder(norm=QueryKeyNorm.WHOLE, windows=no_layer)
_EXAONE4: Final = Decoder(
    qkv_bias=BIAS,
    output_bias=BIAS,
    mlp_bias=("mlp_bias",),
    norm=PER_HEAD,
    windows=by_pattern("sliding_window_pattern", 4),
)
_COHERE: Final = Decoder(norms=1, norm=QueryKeyNorm.FULL, norm_if=("use_qk_norm",), windows=no_layer)
_HUNYUAN: Final = Decoder(
    qkv_bias=BIAS,
    output_bias=BIAS,
    mlp_bias=("mlp_bias",),
    norm=PER_HEAD,
    norm_if=("use_qk_norm",),
)
_STABLELM: Final = Family(
    Decoder(qkv_bias=("use_qkv_bias",), norms=2 * LAYER_NORM, even_heads=True),
    ends=_layer_norm_end,
    frame=ALL_EVERYWHERE,
)
_LLAMA: Final = Family(llama)


def _qwen_window(text: Config) -> int | None:
    """Return the window of all layers.

    A config that gives a window to some layers only (``max_window_layers``) has none: the engine sets one
    window for the model, and only where every layer has it (vLLM 0.32.0, EngineArgs.create_engine_config).
    """
    if not text.boolean("use_sliding_window"):
        return None
    first_windowed = text.integer("max_window_layers", default=28, minimum=0)
    return text.optional_integer("sliding_window") if first_windowed == 0 else None


def qwen2_attention(text: Config) -> Attention:
    """Return the attention of Qwen2: biases on queries, keys and values, and one window for all layers."""
    # Source: vLLM 0.20.2 to 0.33.0, qwen2.py and qwen2_moe.py: head_dim is not read; asked of 0.33.0.
    return attention(evenly(text), window=_qwen_window(text), weights=AttentionWeights(qkv_bias=True))


def _qwen2(text: Config) -> tuple[DecoderLayer, ...]:
    layer = DecoderLayer(qwen2_attention(text), dense(text))
    return (layer,) * num_layers(text)


def qwen3_attention(text: Config) -> Attention:
    """Return the attention of Qwen3: queries and keys normalized per head, and one window for all layers."""
    weights = AttentionWeights(qkv_bias=text.boolean("attention_bias"), query_key_norm=QueryKeyNorm.PER_HEAD)
    return attention(text, window=_qwen_window(text), weights=weights)


def _qwen3(text: Config) -> tuple[DecoderLayer, ...]:
    return (DecoderLayer(qwen3_attention(text), dense(text)),) * num_layers(text)


_QWEN3_VL: Final = Family(_qwen3, multimodal=True, splits_media_heads=True, towers=merged_patches.qwen3_vl)


def _mistral_lacks(config: Config, _: Config) -> tuple[str, ...]:
    """Return what a config of text and images lacks, which the class for text reads as a whole.

    Source: vLLM 0.20.2 to 0.33.0, LlamaModel; transformers 4.57 to 5.19, Mistral3Config has no such fields;
    0.20.2, 0.26.0 and 0.33.0 asked.
    """
    whole = config.text("model_type") == "mistral3" and "MistralForCausalLM" in config.texts("architectures")
    return tuple(name for name in ("hidden_act", "rms_norm_eps") if whole and name not in config)


_MISTRAL: Final = Family(Decoder(windows=by_type), lacks=_mistral_lacks)


def _gemma(text: Config) -> tuple[DecoderLayer, ...]:
    return (DecoderLayer(attention(text), dense(text)),) * num_layers(text)


def _internlm2_ve(text: Config) -> tuple[DecoderLayer, ...]:
    """Read InternLM2-VE, with a second network of the same width for image tokens.

    Source: vLLM 0.20.2, internlm2_ve.InternLM2VEDecoderLayer.
    """
    both = DenseFeedForward(2 * text.integer("intermediate_size"))
    return tuple(replace(layer, feed_forward=both) for layer in Decoder(windows=every_layer)(text))


def _declared_windows(text: Config) -> tuple[int | None, ...]:
    """Return the windows by ``layer_types``; without types no layer has one.

    Source: transformers 5.19, CohereCompassTextConfig.
    """
    return by_type(text) if text.texts("layer_types") else no_layer(text)


FAMILIES: Final[Mapping[str, Family]] = {
    "LlamaForCausalLM": _LLAMA,
    "LLaMAForCausalLM": _LLAMA,
    "AquilaForCausalLM": _LLAMA,
    "AquilaModel": _LLAMA,
    "CwmForCausalLM": Family(replace(LLAMA, windows=by_pattern("", 4, full_first=True))),
    "Fairseq2LlamaForCausalLM": _LLAMA,
    "GritLM": _LLAMA,
    "IQuestCoderForCausalLM": _LLAMA,
    "InternLMForCausalLM": _LLAMA,
    "InternLM3ForCausalLM": _LLAMA,
    "MolmoForCausalLM": Family(_molmo, multimodal=True, towers=pooled_crops.molmo, frame=ALL_EVERYWHERE),
    "Molmo2ForConditionalGeneration": Family(
        _molmo2,
        multimodal=True,
        bidirectional_media=lambda _: True,
        towers=pooled_crops.molmo2,
        frame=ALL_EVERYWHERE,
    ),
    "NanbeigeForCausalLM": replace(_LLAMA, weights_checked=False),
    "Phi3ForCausalLM": _LLAMA,
    "SmolLM3ForCausalLM": replace(_LLAMA, tied_by_default=True),
    "SolarForCausalLM": _LLAMA,
    "TeleChat2ForCausalLM": _TELE_CHAT,
    "TeleChatForCausalLM": _TELE_CHAT,
    "TeleChat3ForCausalLM": _LLAMA,
    "TeleFLMForCausalLM": _LLAMA,
    "XverseForCausalLM": _LLAMA,
    "ApertusForCausalLM": Family(replace(LLAMA, gated=False, norm=PER_HEAD)),
    "ArceeForCausalLM": Family(replace(LLAMA, gated=False)),
    "ChatGLMForConditionalGeneration": _CHAT_GLM,
    "ChatGLMModel": _CHAT_GLM,
    "ChameleonForConditionalGeneration": Family(
        Decoder(qkv_bias=("attention_bias",), norm=QueryKeyNorm.FULL, windows=no_layer),
        multimodal=True,
        weights_checked=False,
        frame=ALL_EVERYWHERE,
    ),
    "CohereForCausalLM": Family(_COHERE, tied=True, frame=ALL_EVERYWHERE),
    "Cohere2ForCausalLM": Family(
        replace(_COHERE, windows=by_pattern("sliding_window_pattern", 4), window_excludes_itself=True),
        tied=True,
        frame=ALL_EVERYWHERE,
    ),
    "Ernie4_5ForCausalLM": Family(_NO_BIAS, tied_by_default=True),
    "ExaoneForCausalLM": Family(LLAMA),
    "Exaone4ForCausalLM": Family(_EXAONE4),
    "GlmForCausalLM": Family(Decoder(qkv_bias=("attention_bias",))),
    "Glm4ForCausalLM": Family(Decoder(qkv_bias=("attention_bias",), norms=4)),
    "GraniteForCausalLM": Family(LLAMA),
    "GraniteSWAForCausalLM": Family(
        replace(LLAMA, sinks=True, windows=by_pattern("", 4, full_first=True)), tied_by_default=True
    ),
    "HunYuanDenseV1ForCausalLM": Family(_HUNYUAN),
    "HyperCLOVAXForCausalLM": Family(_hyper_clova),
    "InternLM2ForCausalLM": Family(replace(_NO_BIAS, even_heads=True), frame=ALL_EVERYWHERE),
    "NemotronForCausalLM": Family(
        Decoder(
            qkv_bias=BIAS,
            output_bias=BIAS,
            mlp_bias=("mlp_bias",),
            gated=False,
            norms=2 * LAYER_NORM,
        ),
        ends=_layer_norm_end,
    ),
    "OlmoForCausalLM": Family(
        Decoder(qkv_bias=("attention_bias",), output_bias=("attention_bias",), norms=0),
        ends=lambda _: ModelEnds(norm_weights=0),
        frame=ALL_EVERYWHERE,
    ),
    "Olmo2ForCausalLM": Family(_OLMO2, frame=ALL_EVERYWHERE),
    "Olmo3ForCausalLM": Family(
        replace(_OLMO2, windows=by_pattern("sliding_window_pattern", 4)), frame=ALL_EVERYWHERE
    ),
    "OrionForCausalLM": Family(Decoder(norms=2 * LAYER_NORM), ends=_layer_norm_end, frame=ALL_EVERYWHERE),
    "PanguEmbeddedForCausalLM": Family(replace(LLAMA, windows=every_layer)),
    "Plamo3ForCausalLM": Family(replace(_NORMED, norms=4), frame=ALL_EVERYWHERE),
    "SeedOssForCausalLM": Family(Decoder(qkv_bias=True)),
    "StableLmForCausalLM": _STABLELM,
    "StableLMEpochForCausalLM": _STABLELM,
    "Starcoder2ForCausalLM": Family(
        Decoder(
            qkv_bias=("use_bias",),
            output_bias=("use_bias",),
            mlp_bias=("use_bias",),
            gated=False,
            mlp_names=("c_fc", "c_proj"),
            norms=2 * LAYER_NORM,
        ),
        tied_by_default=True,
        ends=_layer_norm_end,
        frame=ALL_EVERYWHERE,
    ),
    "Step1ForCausalLM": Family(
        replace(LLAMA, alibi=True, windows=every_layer), tied_by_default=True, weights_checked=False
    ),
    "Qwen2ForCausalLM": Family(_qwen2, reads_text_part=True),
    "MiMoForCausalLM": Family(_qwen2),
    "Qwen2VLForConditionalGeneration": Family(
        _qwen2, multimodal=True, splits_media_heads=True, towers=merged_patches.qwen2_vl
    ),
    "Qwen2_5_VLForConditionalGeneration": Family(
        _qwen2, multimodal=True, splits_media_heads=True, towers=merged_patches.qwen2_5_vl
    ),
    "Cosmos3ForConditionalGeneration": _QWEN3_VL,
    "Qwen3ForCausalLM": Family(_qwen3, reads_text_part=True),
    "Qwen3VLForConditionalGeneration": _QWEN3_VL,
    "MistralForCausalLM": _MISTRAL,
    "Ministral3ForCausalLM": _MISTRAL,
    "GemmaForCausalLM": Family(_gemma, tied_by_default=True, frame=ALL_EVERYWHERE),
    "CohereCompassTextModel": Family(
        Decoder(
            qkv_bias=("attention_bias",), output_bias=("attention_bias",), norms=1, windows=_declared_windows
        ),
        tied=True,
        frame=ALL_EVERYWHERE,
    ),
    "InternLM2VEForCausalLM": Family(_internlm2_ve, frame=ALL_EVERYWHERE),
}
