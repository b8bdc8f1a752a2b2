"""Sections of a params.json: windows, quantization, experts, scaling and media."""

from typing import Any, Final

from service.architecture.config import Config
from service.architecture.mistral_format.dialect import Dialect, DialectPart, RefusedParams

Fields = dict[str, Any]

FP8: Final = "fp8_e4m3"
MIXTURE: Final = {
    "route_every_n": "moe_layer_freq",
    "first_k_dense_replace": "first_k_dense_replace",
    "num_experts_per_tok": "num_experts_per_tok",
    "num_experts": "n_routed_experts",
    "expert_hidden_dim": "moe_intermediate_size",
    "routed_scale": "routed_scaling_factor",
    "num_shared_experts": "n_shared_experts",
    "num_expert_groups": "n_group",
    "num_expert_groups_per_tok": "topk_group",
}
"""vLLM 0.32.0, configs/mistral.py _remap_moe_args."""
SCALING: Final = {
    "factor": "factor",
    "original_max_position_embeddings": "original_max_position_embeddings",
    "beta": "beta_fast",
    "alpha": "beta_slow",
}
"""vLLM 0.32.0, configs/mistral.py _remap_mistral_yarn_args."""
LENGTH_SCALING: Final = ("original_max_position_embeddings", "beta")
"""Keys that ``llama_4_scaling`` must have."""


def windows(params: Config, dialect: Dialect) -> Fields:
    """Return the window of the layers, and which layers have it.

    Source: vLLM 0.16.0, configs/mistral.py _remap_mistral_sliding_window; 0.14.1, MistralConfigParser.parse.
    """
    specified = params.fields.get("sliding_window")
    if not specified:
        return {}
    if isinstance(specified, list):
        return _pattern(params, specified, dialect)
    window = params.integer("sliding_window")
    if not dialect.reads(DialectPart.WINDOW_TYPES):
        return {"sliding_window": window}
    if "layer_types" in params:
        raise RefusedParams("/sliding_window", f"Unsupported sliding_window type: {window}")
    return {"sliding_window": window, "layer_types": ["sliding_attention"] * _layers(params)}


def _pattern(params: Config, specified: list[Any], dialect: Dialect) -> Fields:
    if not dialect.reads(DialectPart.WINDOW_LISTS):
        detail = "the release reads no list of windows"
        raise RefusedParams("/sliding_window", "", type="TypeError", building=True, detail=detail)
    kinds = [width for width in specified if width is not None]
    widths = Config({"sliding_window": kinds}, params.pointer).counts("sliding_window")
    if len(set(widths)) > 1 and dialect.reads(DialectPart.WINDOW_TYPES):
        raise RefusedParams("/sliding_window", str(specified))
    repeats = _layers(params) // len(specified)
    types = ["full_attention" if width is None else "sliding_attention" for width in specified] * repeats
    return {"sliding_window": next(filter(None, widths), None), "layer_types": types}


def _layers(params: Config) -> int:
    return params.layers("n_layers", "num_hidden_layers")


def quantization(params: Config, dialect: Dialect) -> Fields:
    """Return the ``quantization_config`` that the engine makes of ``quantization``.

    Source: vLLM 0.32.0, configs/mistral.py _remap_mistral_quantization_args.
    """
    section = params.section("quantization")
    if section is None or not section.fields:
        return {}
    if section.fields.get("qformat_weight") == FP8:
        scheme = _activation_scheme(section, dialect)
        return {"quantization_config": {"quant_method": "fp8", "activation_scheme": scheme}}
    method = str(section.fields.get("quant_method") or "").lower().replace("_", "-")
    if method != "compressed-tensors" or not dialect.reads(DialectPart.COMPRESSED_TENSORS):
        raise RefusedParams(section.pointer, f"Found unknown quantization='{dict(section.fields)}' in config")
    return {"quantization_config": {**section.fields, "quant_method": method}}


def _activation_scheme(section: Config, dialect: Dialect) -> str:
    if not dialect.reads(DialectPart.ACTIVATION_SCALES):
        return "static"
    specified = section.fields.get("qscheme_act")
    if specified not in ("NO_SCALES", "TENSOR", None):
        words = "Only NO_SCALES and TENSOR (default) are supported for qscheme_act"
        raise RefusedParams(section.at("qscheme_act"), words)
    return "dynamic" if specified == "NO_SCALES" else "static"


def mixture(experts: Config) -> Fields:
    """Return the experts of Mistral Large 3 by DeepSeek's names."""
    renamed = {usual: experts.fields[key] for key, usual in MIXTURE.items() if key in experts.fields}
    return {**renamed, "topk_method": None, "norm_topk_prob": True, "scoring_func": "softmax"}


def no_experts(fields: Fields) -> Fields:
    """Return the experts of a model that has none: every layer is dense.

    Source: vLLM 0.18.0, configs/mistral.py _remap_mistral_mla_args.
    """
    return {
        "num_experts": 1,
        "first_k_dense_replace": fields.get("num_hidden_layers"),
        "route_every_n": 1,
        "num_shared_experts": 1,
        "expert_hidden_dim": fields.get("intermediate_size"),
        "num_experts_per_tok": 1,
    }


def check_length_scaling(params: Config, dialect: Dialect, *, needed: bool) -> None:
    """Refuse a ``llama_4_scaling`` that lacks a key, or its absence where the model needs it.

    Source: vLLM 0.32.0, configs/mistral.py adapt_config_dict.
    """
    if needed and "llama_4_scaling" not in params.fields:
        raise RefusedParams(params.at("llama_4_scaling"), "MistralLarge3 expect llama4 scaling config.")
    section = params.section("llama_4_scaling")
    if section is None or not dialect.reads(DialectPart.CHECKED_SCALING):
        return
    if (needed or section.fields) and any(key not in section.fields for key in LENGTH_SCALING):
        words = f"llama_4_scaling config should define the keys: {','.join(LENGTH_SCALING)}"
        raise RefusedParams(section.pointer, words)


def scaling(params: Config, dialect: Dialect) -> Fields:
    """Return the ``rope_parameters`` that the engine makes of ``yarn``."""
    section = params.section("yarn")
    if section is None or not section.fields:
        return {}
    unread = {key: value for key, value in section.fields.items() if key not in {*SCALING, "apply_scale"}}
    if unread and dialect.reads(DialectPart.CHECKED_SCALING):
        raise RefusedParams(section.pointer, f"Unparsed yarn config: {unread}")
    specified = {usual: section.fields[key] for key, usual in SCALING.items() if key in section.fields}
    base = params.fields.get("rope_theta")
    return {"rope_parameters": {"rope_type": "yarn", **specified, **({"rope_theta": base} if base else {})}}


def media(params: Config, fields: Fields, dialect: Dialect) -> Fields:
    """Return the whole config: the text's, or that of a model with an encoder around it.

    Source: vLLM 0.32.0, configs/mistral.py _remap_mistral_vision_args and _remap_mistral_audio_args.
    """
    multimodal = params.section("multimodal") or Config({}, params.at("multimodal"))
    audio = multimodal.section("whisper_model_args")
    encoder = None if audio is None else audio.section("encoder_args")
    sees = bool(multimodal.fields.get("vision_encoder_args") or params.fields.get("vision_encoder"))
    hears = encoder is not None and bool(encoder.fields)
    if sees and hears:
        raise RefusedParams(multimodal.pointer, "Vision and audio are mutually exclusive")
    if sees:
        vision = multimodal if multimodal.fields else params.section("vision_encoder")
        tower = {"vision_config": None if vision is None else vision.fields}
        return _around(fields, "pixtral", "PixtralForConditionalGeneration", tower)
    if audio is not None and encoder is not None and hears:
        class_name = _audio_class(encoder, dialect)
        sound = {"audio_config": _whisper(encoder, audio.section("downsample_args"))}
        return _around(fields, "voxtral", class_name, sound)
    return fields


WHISPER: Final = {
    "dim": "d_model",
    "n_layers": "encoder_layers",
    "hidden_dim": "encoder_ffn_dim",
    "n_heads": "encoder_attention_heads",
}
"""Mistral's names of the fields of an encoder of sound, and Whisper's."""


def _whisper(encoder: Config, downsample: Config | None) -> Fields:
    """Return an encoder of sound by Whisper's names, with the frames that become one token."""
    spectrum = encoder.section("audio_encoding_args")
    mels = {} if spectrum is None else {"num_mel_bins": spectrum.fields.get("num_mel_bins")}
    joined = {} if downsample is None else {"downsample_factor": downsample.fields.get("downsample_factor")}
    named = {usual: encoder.fields[name] for name, usual in WHISPER.items() if name in encoder.fields}
    return {**encoder.fields, **named, **mels, **joined}


def _audio_class(encoder: Config, dialect: Dialect) -> str:
    if encoder.boolean("causal"):
        if dialect.reads(DialectPart.REALTIME_AUDIO):
            return "VoxtralRealtimeGeneration"
        if dialect.reads(DialectPart.STREAMING_AUDIO):
            return "VoxtralStreamingGeneration"
    return "VoxtralForConditionalGeneration"


def _around(text: Fields, model_type: str, class_name: str, tower: Fields) -> Fields:
    whole = {"model_type": model_type, "architectures": [class_name], "text_config": text, **tower}
    if text.get("quantization_config"):
        whole["quantization_config"] = text["quantization_config"]
    return whole
