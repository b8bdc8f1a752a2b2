"""Multimodal classes: encoders of images or sound before a text model with a class of its own."""

from collections.abc import Mapping
from typing import Final

from service.architecture.config import Config, InvalidConfig
from service.architecture.encoders import (
    abstracted_patches,
    adapted_patches,
    audio,
    conformer,
    convolved_patches,
    deepencoder,
    document_patches,
    downsampled_patches,
    intern_vit,
    merged_patches,
    minicpm,
    moon_patches,
    phi_images,
    pooled_patches,
    projected_patches,
    queried_patches,
    radio,
    speech,
    timm_patches,
    visual_tokens,
    whole_projectors,
)
from service.architecture.readers.attention.interleaved_windows import GEMMA4_VIDEO_TOKENS
from service.architecture.readers.recipes.family import Wrapper, lacking_in_both

_THINKER: Final = ("thinker_config", "text_config")
_AS_DECLARED: Final = Wrapper()
"""The text part names its own class, or its ``model_type`` does."""
_INTERN_VL_CHAT: Final = Wrapper(towers=intern_vit.intern_vl_chat)
_OVIS2_5: Final = Wrapper(sections=("llm_config",), towers=visual_tokens.ovis2_5)
_LLAMA: Final = Wrapper("LlamaForCausalLM")
_QWEN2: Final = Wrapper("Qwen2ForCausalLM")
_QWEN2_OMNI: Final = Wrapper(
    "Qwen2ForCausalLM", _THINKER, splits_media_heads=True, towers=merged_patches.qwen2_5_omni
)
_QWEN3: Final = Wrapper("Qwen3ForCausalLM")
_QWEN3_ASR: Final = Wrapper("Qwen3ForCausalLM", _THINKER, may_be_flat=True, towers=merged_patches.qwen3_asr)
_KIMI_VL: Final = Wrapper("DeepseekV2ForCausalLM", model_type="deepseek_v3", towers=moon_patches.moonvit)


def _minicpm_v_text(text: Config) -> str:
    """Return MiniCPM-V's class of the text model: vLLM 0.33.0, minicpmv.get_version_by_config."""
    if "version" in text or text.integer("hidden_size") != MINICPM_V2_HIDDEN:
        is_first = str(text.fields.get("version") or "") == MINICPM_V_FIRST
    else:
        is_first = text.integer("query_num") == MINICPM_V2_QUERIES
    if is_first:
        raise InvalidConfig(text.at("version"), MINICPM_V_FAILS)
    return _of_version(text, MINICPM_V_TEXTS, "2.5")


def _minicpm_o_text(text: Config) -> str:
    """Return the class of the text model of MiniCPM-o. Source: vLLM 0.33.0, minicpmo.MiniCPMO.__new__."""
    return _of_version(text, MINICPM_O_TEXTS, "2.6")


def _of_version(text: Config, texts: Mapping[str, str], unset: str) -> str:
    version = str(text.fields.get("version") or unset)
    if version not in texts:
        raise InvalidConfig(text.at("version"), f"is none of {', '.join(texts)}, which the engine knows")
    return texts[version]


MINICPM_V_FIRST: Final = "2.0"
MINICPM_V_FAILS: Final = (
    "is that of MiniCPM-V 2.0, which no release starts: AttributeError: type object 'MiniCPMV2_0' has no "
    "attribute 'packed_modules_mapping'"
)
"""vLLM 0.10.2 to 0.33.0, minicpmv.py MiniCPMV.__new__; asked of 0.20.2 and 0.33.0."""
MINICPM_V2_HIDDEN: Final = 2304
MINICPM_V2_QUERIES: Final = 64
MINICPM_V_TEXTS: Final = {
    "2.5": "LlamaForCausalLM",
    "2.6": "Qwen2ForCausalLM",
    "4.0": "LlamaForCausalLM",
    "4.5": "Qwen3ForCausalLM",
}
"""vLLM 0.10.2 to 0.33.0, minicpmv._SUPPORT_VERSION and the ``init_llm`` of each version."""
MINICPM_O_TEXTS: Final = {"2.6": "Qwen2ForCausalLM", "4.5": "Qwen3ForCausalLM"}
"""vLLM 0.33.0, minicpmo._MINICPMO_SUPPORT_VERSION."""
_MINICPM_HYBRID: Final = Wrapper(
    "Qwen3_5ForCausalLM",
    model_type="qwen3_5_text",
    splits_media_heads=True,
    towers=projected_patches.minicpm,
)
"""vLLM 0.22.0, minicpmv4_6.py; 0.32.0, minicpmv4_7.py; 0.33.0, minicpm_ocr.py."""
_NEMOTRON_H: Final = Wrapper(
    "NemotronHForCausalLM", model_type="nemotron_h", supports_pipeline=False, towers=radio.nano_nemotron
)
"""vLLM 0.10.2 to 0.33.0, nano_nemotron_vl.py."""

WRAPPERS: Final[Mapping[str, Wrapper]] = {
    "Alpamayo2Super": Wrapper(
        "Qwen3ForCausalLM",
        ("vlm_config", "text_config"),
        model_type="qwen3_vl_text",
        towers=lambda config: merged_patches.qwen3_vl(config.section("vlm_config") or config),
    ),
    "AriaForConditionalGeneration": Wrapper(
        "AriaTextForCausalLM",
        model_type="aria_text",
        splits_media_heads=True,
        supports_pipeline=False,
        towers=projected_patches.aria,
    ),
    "AudioFlamingo3ForConditionalGeneration": Wrapper("Qwen2ForCausalLM", towers=audio.audio_flamingo),
    "AyaVisionForConditionalGeneration": Wrapper(
        "Cohere2ForCausalLM",
        model_type="cohere2",
        splits_media_heads=True,
        towers=projected_patches.aya_vision,
    ),
    "BagelForConditionalGeneration": Wrapper(
        "Qwen2ForCausalLM",
        ("llm_config",),
        bidirectional_media=lambda _: True,
        splits_media_heads=True,
        towers=projected_patches.bagel,
    ),
    "BailingMoeV3VLForConditionalGeneration": Wrapper(
        "BailingMoeV3ForCausalLM", splits_media_heads=True, towers=merged_patches.ling3
    ),
    "BeeForConditionalGeneration": Wrapper(towers=whole_projectors.bee),
    "Blip2ForConditionalGeneration": Wrapper(
        model_type="opt", splits_media_heads=True, towers=queried_patches.blip2
    ),
    "Cheers": _QWEN2,
    "CheersForConditionalGeneration": _QWEN2,
    "Cohere2VisionForConditionalGeneration": Wrapper(
        model_type="cohere2", splits_media_heads=True, towers=projected_patches.cohere2_vision
    ),
    "CohereCompassForConditionalGeneration": Wrapper(
        "CohereCompassTextModel",
        model_type="cohere_compass_text",
        splits_media_heads=True,
        towers=merged_patches.cohere_compass,
    ),
    "DeepseekOCR2ForCausalLM": Wrapper(
        sections=("language_config",), model_type="deepseek_v2", towers=deepencoder.deepseek_ocr2
    ),
    "DeepseekOCRForCausalLM": Wrapper(
        sections=("language_config",), model_type="deepseek_v2", towers=deepencoder.deepseek_ocr
    ),
    "DeepseekV4ForConditionalGeneration": Wrapper(
        "DeepseekV4ForCausalLM", towers=adapted_patches.deepseek_v4
    ),
    "DeepseekVLV2ForCausalLM": Wrapper(
        sections=("language_config",), model_type="deepseek_v2", towers=timm_patches.deepseek_vl2
    ),
    "DotsOCRForCausalLM": Wrapper(
        "Qwen2ForCausalLM", splits_media_heads=True, towers=document_patches.dots_ocr
    ),
    "Eagle2_5_VLForConditionalGeneration": Wrapper(towers=whole_projectors.eagle2_5),
    "Emu3ForConditionalGeneration": Wrapper("LlamaForCausalLM", model_type="emu3_text_model"),
    "Ernie4_5_VLMoeForConditionalGeneration": Wrapper(
        "Ernie4_5_VLTextForCausalLM", splits_media_heads=True, towers=document_patches.ernie4_5_vl
    ),
    "Exaone4_5_ForConditionalGeneration": Wrapper(
        "Exaone4ForCausalLM", splits_media_heads=True, towers=downsampled_patches.exaone4_5
    ),
    "FireRedASR2ForConditionalGeneration": Wrapper(
        "Qwen2ForCausalLM", supports_pipeline=False, towers=speech.fireredasr2
    ),
    "FunASRForConditionalGeneration": Wrapper(
        "Qwen3ForCausalLM", supports_pipeline=False, towers=speech.funasr
    ),
    "FunAudioChatForConditionalGeneration": Wrapper("Qwen3ForCausalLM", towers=speech.funaudiochat),
    "FuyuForCausalLM": Wrapper("PersimmonForCausalLM", model_type="persimmon", towers=projected_patches.fuyu),
    "GLM4VForCausalLM": Wrapper("ChatGLMModel", splits_media_heads=True, towers=convolved_patches.glm4v),
    "Gemma4UnifiedForConditionalGeneration": Wrapper(
        "Gemma4ForCausalLM",
        bidirectional_media=lambda text: text.fields.get("use_bidirectional_attention") == "vision",
        largest_media_item=GEMMA4_VIDEO_TOKENS,
        towers=pooled_patches.gemma4_unified,
    ),
    "Glm4vForConditionalGeneration": Wrapper(
        "Glm4ForCausalLM", splits_media_heads=True, towers=downsampled_patches.glm4v
    ),
    "Glm4vMoeForConditionalGeneration": Wrapper(
        "Glm4MoeForCausalLM", splits_media_heads=True, towers=downsampled_patches.glm4v
    ),
    "Glm5NextForConditionalGeneration": Wrapper(
        "Glm5NextForCausalLM", model_type="glm5_next_text", splits_media_heads=True
    ),
    "GlmAsrForConditionalGeneration": Wrapper(
        "LlamaForCausalLM", splits_media_heads=True, towers=audio.glm_asr
    ),
    "GlmOcrForConditionalGeneration": Wrapper(
        "Glm4ForCausalLM", splits_media_heads=True, towers=downsampled_patches.glm_ocr
    ),
    "GraniteSpeechForConditionalGeneration": Wrapper(model_type="granite", towers=conformer.granite_speech),
    "GraniteSpeechPlusForConditionalGeneration": Wrapper(
        model_type="granite", towers=conformer.granite_speech
    ),
    "Granite4VisionForConditionalGeneration": Wrapper(
        "GraniteForCausalLM",
        model_type="granite",
        splits_media_heads=True,
        towers=queried_patches.granite4_vision,
    ),
    "H2OVLChatModel": _INTERN_VL_CHAT,
    "HCXVisionForCausalLM": _AS_DECLARED,
    "HCXVisionV2ForCausalLM": Wrapper(splits_media_heads=True, towers=whole_projectors.hyperclova_vision),
    "HunYuanVLForConditionalGeneration": Wrapper(
        "HunYuanDenseV1ForCausalLM", towers=document_patches.hunyuan_vl
    ),
    "Idefics3ForConditionalGeneration": Wrapper(
        "LlamaForCausalLM",
        model_type="llama",
        splits_media_heads=True,
        supports_pipeline=False,
        towers=projected_patches.idefics3,
    ),
    "InklingForConditionalGeneration": Wrapper("InklingForCausalLM", model_type="inkling_model"),
    "InternS1ForConditionalGeneration": Wrapper(towers=projected_patches.intern_vl),
    "InternS1ProForConditionalGeneration": Wrapper(
        "Qwen3MoeForCausalLM", splits_media_heads=True, towers=merged_patches.qwen3_vl
    ),
    "InternVLChatModel": _INTERN_VL_CHAT,
    "InternVLForConditionalGeneration": Wrapper(towers=projected_patches.intern_vl),
    "IsaacForConditionalGeneration": Wrapper(
        "Qwen3ForCausalLM", splits_media_heads=True, towers=projected_patches.isaac
    ),
    "KananaVForConditionalGeneration": Wrapper("LlamaForCausalLM", towers=abstracted_patches.kanana_v),
    "KeyeForConditionalGeneration": Wrapper("Qwen3ForCausalLM", towers=document_patches.keye),
    "KeyeVL1_5ForConditionalGeneration": Wrapper("Qwen3ForCausalLM", towers=document_patches.keye_vl1_5),
    "KimiK3ForConditionalGeneration": Wrapper(
        "KimiLinearForCausalLM", model_type="kimi_linear", towers=moon_patches.kimi_k3
    ),
    "KimiVLForConditionalGeneration": _KIMI_VL,
    "Lfm2VlForConditionalGeneration": Wrapper(
        model_type="lfm2", splits_media_heads=True, towers=projected_patches.lfm2
    ),
    "LightOnOCRForConditionalGeneration": Wrapper("Qwen3ForCausalLM", towers=document_patches.light_on_ocr),
    "Llama4ForConditionalGeneration": Wrapper(
        "Llama4ForCausalLM", splits_media_heads=True, towers=adapted_patches.llama4
    ),
    "Llama_Nemotron_Nano_VL": Wrapper(towers=radio.llama_nemotron),
    "LlavaForConditionalGeneration": Wrapper(
        model_type="llama", splits_media_heads=True, towers=projected_patches.llava
    ),
    "LlavaNextForConditionalGeneration": Wrapper(
        model_type="llama", splits_media_heads=True, towers=projected_patches.llava_next
    ),
    "LlavaNextVideoForConditionalGeneration": Wrapper(
        model_type="llama", splits_media_heads=True, towers=projected_patches.llava_next_video
    ),
    "LlavaOnevisionForConditionalGeneration": Wrapper(
        model_type="qwen2", splits_media_heads=True, towers=projected_patches.llava_onevision
    ),
    "LlavaOnevision2ForConditionalGeneration": Wrapper(
        "Qwen3ForCausalLM", splits_media_heads=True, towers=whole_projectors.llava_onevision2
    ),
    "MantisForConditionalGeneration": Wrapper(model_type="llama"),
    "MiDashengLMModel": Wrapper("Qwen2ForCausalLM", towers=speech.midashenglm),
    "MiniCPMOcrForConditionalGeneration": _MINICPM_HYBRID,
    "MiniCPMO": Wrapper(inner_of=_minicpm_o_text, towers=minicpm.minicpm_o),
    "MiniCPMV": Wrapper(inner_of=_minicpm_v_text, towers=minicpm.minicpm_v),
    "MiniCPMV4_6ForConditionalGeneration": _MINICPM_HYBRID,
    "MiniCPMV4_7ForConditionalGeneration": _MINICPM_HYBRID,
    "MiniMaxVL01ForConditionalGeneration": Wrapper(
        "MiniMaxText01ForCausalLM",
        splits_media_heads=True,
        declares_states=False,
        towers=projected_patches.llava_next,
    ),
    "MiniMaxM3SparseForConditionalGeneration": Wrapper(
        "MiniMaxM3SparseForCausalLM",
        model_type="minimax_m3_text",
        splits_media_heads=True,
        towers=adapted_patches.minimax_m3,
    ),
    "MiMoV2OmniForCausalLM": Wrapper("MiMoV2ForCausalLM", towers=whole_projectors.mimo_v2_omni),
    "MoonshotKimiaForCausalLM": Wrapper("Qwen2ForCausalLM", towers=speech.kimi_audio),
    "Mistral3ForConditionalGeneration": Wrapper(
        model_type="mistral", splits_media_heads=True, towers=adapted_patches.pixtral
    ),
    "MossAudioModel": Wrapper(
        "Qwen3ForCausalLM", ("language_config",), model_type="qwen3", towers=speech.moss_audio
    ),
    "MossTranscribeDiarizeForConditionalGeneration": Wrapper(
        "Qwen3ForCausalLM", towers=audio.moss_transcribe
    ),
    "MuseGlimmerForConditionalGeneration": Wrapper(
        "MuseGlimmerForCausalLM",
        model_type="muse_glimmer_text",
        towers=adapted_patches.muse_glimmer,
    ),
    "MusicFlamingoForConditionalGeneration": _QWEN2,
    "NVLM_D": Wrapper(towers=whole_projectors.nvlm),
    **dict.fromkeys(
        (
            "NemotronH_Nano_Omni_Reasoning_V3",
            "NemotronH_Nano_VL",
            "NemotronH_Nano_VL_V2",
            "NemotronH_Omni_Reasoning_V3",
            "NemotronH_Super_Omni_Reasoning_V3",
        ),
        _NEMOTRON_H,
    ),
    "OpenCUAForConditionalGeneration": Wrapper(
        "Qwen2ForCausalLM", splits_media_heads=True, towers=merged_patches.qwen2_5_vl
    ),
    "OpenPanguVLForConditionalGeneration": Wrapper(
        "PanguEmbeddedForCausalLM", towers=merged_patches.openpangu_vl
    ),
    "OpenVLAForActionPrediction": Wrapper(model_type="llama", towers=timm_patches.openvla),
    "Ovis": Wrapper(sections=("llm_config",), towers=visual_tokens.ovis),
    "Ovis2_5": _OVIS2_5,
    "Ovis2_6ForCausalLM": _OVIS2_5,
    "Ovis2_6_MoeForCausalLM": _OVIS2_5,
    "PaddleOCRVLForConditionalGeneration": Wrapper(
        "Ernie4_5ForCausalLM",
        splits_media_heads=True,
        supports_pipeline=False,
        towers=projected_patches.paddleocr,
    ),
    "PaliGemmaForConditionalGeneration": Wrapper(
        model_type="gemma",
        bidirectional_media=lambda _: True,
        splits_media_heads=True,
        towers=projected_patches.paligemma,
    ),
    "Phi3VForCausalLM": Wrapper("Phi3ForCausalLM", towers=phi_images.phi3_v),
    "Phi4ForCausalLMV": Wrapper("Phi3ForCausalLM", towers=phi_images.phi4_siglip),
    "Phi4MMForCausalLM": Wrapper(
        "Phi3ForCausalLM", supports_pipeline=False, towers=phi_images.phi4_multimodal
    ),
    "Phi4MultimodalForCausalLM": Wrapper("Phi3ForCausalLM"),
    "PixtralForConditionalGeneration": Wrapper(model_type="mistral", towers=adapted_patches.pixtral_params),
    "QianfanOCRForConditionalGeneration": _INTERN_VL_CHAT,
    "Qwen2AudioForConditionalGeneration": Wrapper(
        "Qwen2ForCausalLM", model_type="qwen2", towers=audio.qwen2_audio
    ),
    "Qwen2_5OmniForConditionalGeneration": _QWEN2_OMNI,
    "Qwen2_5OmniModel": _QWEN2_OMNI,
    "Qwen3ASRForConditionalGeneration": _QWEN3_ASR,
    "Qwen3ASRRealtimeGeneration": _QWEN3_ASR,
    "Qwen3OmniMoeForConditionalGeneration": Wrapper(
        "Qwen3MoeForCausalLM",
        _THINKER,
        splits_media_heads=True,
        towers=merged_patches.qwen3_omni,
        lacks=lacking_in_both("tie_word_embeddings"),
    ),
    "QwenVLForConditionalGeneration": Wrapper("QWenLMHeadModel", towers=queried_patches.qwen_vl),
    "RForConditionalGeneration": Wrapper(towers=whole_projectors.r_vl),
    "SkyworkR1VChatModel": Wrapper(towers=whole_projectors.skywork_r1v),
    "SmolVLMForConditionalGeneration": Wrapper(
        "LlamaForCausalLM",
        model_type="llama",
        splits_media_heads=True,
        supports_pipeline=False,
        towers=projected_patches.idefics3,
    ),
    "Step3VLForConditionalGeneration": Wrapper(
        "Step3TextForCausalLM",
        model_type="step3_text",
        splits_media_heads=True,
        towers=pooled_patches.step3,
    ),
    "Step3p7ForConditionalGeneration": Wrapper(towers=convolved_patches.step_vl),
    "Step5ForConditionalGeneration": Wrapper("Step5ForCausalLM", model_type="step5"),
    "StepVLForConditionalGeneration": Wrapper(towers=convolved_patches.step_vl),
    "Tarsier2ForConditionalGeneration": Wrapper(
        "Qwen2ForCausalLM", splits_media_heads=True, towers=merged_patches.qwen2_vl
    ),
    "TarsierForConditionalGeneration": Wrapper(model_type="llama"),
    "UltravoxModel": Wrapper(model_type="llama", towers=speech.ultravox),
    "UnlimitedOCRForCausalLM": Wrapper(
        sections=("language_config",), model_type="deepseek_v2", towers=deepencoder.deepseek_ocr
    ),
    "VibeVoiceAsrForConditionalGeneration": Wrapper("Qwen2ForCausalLM", model_type="qwen2"),
    "VoxtralForConditionalGeneration": Wrapper(model_type="llama", towers=speech.voxtral),
}
