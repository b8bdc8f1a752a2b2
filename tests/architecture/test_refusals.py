"""Configs that the engine refuses too: each is refused by the field at fault, in words that say why."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, Final

import pytest

from service.architecture.config import MAX_LAYERS, InvalidConfig, read_document
from service.architecture.model import ModelArchitecture
from service.architecture.reading import UnknownArchitecture, read_architecture
from tests.accuracy.recorded import RECORDINGS
from tests.memory.recorded import records

BY_CLASS: Final[Mapping[str, Mapping[str, Any]]] = {
    config["architectures"][0]: config
    for config in (
        *(row["config"] for row in records("families.json")),
        *(config for recording in RECORDINGS for config in recording.configs.values()),
    )
}
"""A config that real releases load, for each class."""
BY_NAME: Final[Mapping[str, Mapping[str, Any]]] = {
    name: config for recording in RECORDINGS for name, config in recording.configs.items()
}


def read(name: str, pointer: str, value: object) -> ModelArchitecture:
    """Read a recorded config with one field set, or taken away with ``None``."""
    document = deepcopy(dict(BY_NAME.get(name) or BY_CLASS[name]))
    *path, key = pointer.split("/")[1:]
    part = document
    for step in path:
        part = part.setdefault(step, {})
    part[key] = value
    return read_architecture(read_document(document))


def recorded(name: str, pointer: str) -> Any:  # noqa: ANN401 - whatever the config says there
    """Return what a recorded config says at a place."""
    value: Any = BY_NAME.get(name) or BY_CLASS[name]
    for step in pointer.split("/")[1:]:
        value = value[step]
    return value


@pytest.mark.parametrize(
    ("name", "pointer"),
    [
        ("DomynEdgeForCausalLM", "/window_sizes"),
        ("DomynEdgeForCausalLM", "/position_layers"),
        ("Gemma3nForCausalLM", "/intermediate_size"),
        ("Glm5NextForCausalLM", "/mlp_layer_types"),
        ("MiMoV2FlashForCausalLM", "/hybrid_layer_pattern"),
        ("MiMoV2FlashForCausalLM", "/moe_layer_freq"),
        ("MiniMaxM3SparseForCausalLM", "/text_config/moe_layer_freq"),
        ("MiniMaxText01ForCausalLM", "/attn_type_list"),
        ("MuseSparkForConditionalGeneration", "/text_config/mlp_layer_types"),
        ("DeciLMForCausalLM", "/block_configs"),
        ("Dots3NoteForCausalLM", "/layer_types"),
        ("AliceAIForCausalLM", "/layer_types"),
    ],
)
def test_a_list_with_an_entry_for_each_layer_may_not_be_shorter(name: str, pointer: str) -> None:
    entries = recorded(name, pointer)

    assert read(name, pointer, entries).layers
    with pytest.raises(InvalidConfig) as caught:
        read(name, pointer, entries[:-1])

    assert caught.value.pointer == pointer


@pytest.mark.parametrize(
    ("name", "pointer", "value", "words"),
    [
        # vLLM 0.33.0, models/step5/nvidia/config.py: two or four heads for each provider of a group of four.
        ("Step5ForCausalLM/sparse", "/sparse_config", None, "the engine runs no checkpoint without it"),
        ("Step5ForCausalLM/sparse", "/sparse_config/sparse_indexer_num_heads", 15, "2 or 4 for each"),
        ("Step5ForCausalLM/sparse", "/sparse_config/sparse_indexer_num_heads", 4, "2 or 4 for each"),
        ("Step5ForCausalLM/sparse", "/sparse_config/index_tp_size", 8, "must be num_attention_groups"),
        ("Step5ForCausalLM/sparse", "/sparse_config/region_block_size", 16, "must be 8"),
        ("Step5ForCausalLM/sparse", "/sparse_config/proxy_dim", 128, "must be 256"),
        ("Step5ForCausalLM/sparse", "/use_head_wise_attn_gate", False, "where regions are selected"),
        ("Step5ForCausalLM/sparse", "/use_moe_router_bias", False, "must be true"),
        ("Step5ForCausalLM/sparse", "/need_fp32_gate", False, "must be true"),
        # vLLM 0.28.0 to 0.33.0, models/bailing_moe_v3.py.
        ("BailingMoeV3ForCausalLM", "/no_kda_lora", False, "is not true"),
        # vLLM 0.33.0, models/inkling/nvidia/moe.py and models/alice_ai.py.
        ("InklingForCausalLM", "/shared_expert_sink", False, "is not true"),
        ("AliceAIForCausalLM", "/layer_types", None, "is missing"),
        ("Dots3NoteForCausalLM", "/layer_types", None, "is missing"),
        ("AliceAIForCausalLM", "/block_attn_res_block_size", 0, "between 1 and"),
        ("Step3TextForCausalLM", "/moe_layers_enum", "", "is missing"),
        ("Step3TextForCausalLM", "/moe_layers_enum", "all", "is missing"),
        ("MuseSparkForConditionalGeneration", "/audio_config/hidden_sizes", [256], "as many as"),
        ("MuseSparkForConditionalGeneration", "/audio_config/hidden_sizes", [], "as many as"),
        ("MuseSparkForConditionalGeneration", "/audio_config", None, "is missing"),
        ("HYV4ForCausalLM/mixed", "/mlp_layer_types", ["dense"], "has 1 entries for 10 layers"),
        ("DomynEdgeForCausalLM/two-sizes", "/window_sizes", [["511", 0]] * 8, "pairs of whole numbers"),
        ("DeciLMForCausalLM", "/block_configs", {"attention": {}}, "of layer 0"),
        ("DeepseekV4ForCausalLM", "/compress_ratios", [4, 128], "a ratio of .* for each of 43 layers"),
        ("DeepseekV4ForCausalLM", "/compress_ratios", [3] * 43, "a ratio of .* for each of 43 layers"),
        ("Qwen4ExpForCausalLM/plain", "/output_gate_type", "gelu", "must be one of sigmoid, silu, swish"),
        ("NemotronHForCausalLM/Nemotron-H-8B-Base-8K", "/hybrid_override_pattern", "M-X", "other than M"),
        ("NemotronHForCausalLM/Nemotron-H-8B-Base-8K", "/hybrid_override_pattern", "", "is missing"),
    ],
)
def test_what_the_engines_class_asserts_of_its_config(
    name: str, pointer: str, value: object, words: str
) -> None:
    with pytest.raises(InvalidConfig, match=words) as caught:
        read(name, pointer, value)

    assert caught.value.pointer == pointer


@pytest.mark.parametrize(
    ("name", "pointer", "value"),
    [
        # Kernels' blocks are known for groups of 16 tokens alone.
        ("Glm5NextForCausalLM", "/index_kpool", 8),
        ("LongcatFlashForCausalLM", "/disable_quant_module", ["mlp"]),
        ("Zamba2ForCausalLM/Zamba2-2.7B", "/use_long_context", True),
        ("Zamba2ForCausalLM/Zamba2-2.7B", "/layers_block_type", ["mamba"] * 54),
        # Three passes over the lower stack of 16 layers and one over the upper are 64 caches a cycle.
        ("HrmTextForCausalLM", "/H_cycles", MAX_LAYERS // 64 + 1),
        ("NemotronHForCausalLM/Nemotron-H-8B-Base-8K", "/hybrid_override_pattern", "*" * (MAX_LAYERS + 1)),
    ],
)
def test_what_is_not_modelled_or_beyond_a_limit_is_refused(name: str, pointer: str, value: object) -> None:
    with pytest.raises(InvalidConfig) as caught:
        read(name, pointer, value)

    assert caught.value.pointer == pointer


def test_a_gate_of_mla_is_elementwise_or_headwise() -> None:
    gated = {**BY_NAME["HYV4ForCausalLM/mixed"], "gated_mla": True, "gating_type": "rowwise"}

    with pytest.raises(InvalidConfig, match="must be elementwise or headwise") as caught:
        read_architecture(read_document(gated))

    assert caught.value.pointer == "/gating_type"


def test_a_model_without_any_attention_is_refused() -> None:
    """Nemotron-NAS may prune the attention of some layers, not of all."""
    block = {"attention": {"no_op": True}, "ffn": {"no_op": False, "ffn_mult": 1.0}}

    with pytest.raises(InvalidConfig, match="no layer of the model mixes tokens"):
        read("DeciLMForCausalLM", "/block_configs", [block] * 6)


def test_a_section_that_a_wrapper_needs_is_named() -> None:
    with pytest.raises(InvalidConfig, match="is missing") as caught:
        read("Qwen2_5OmniForConditionalGeneration", "/thinker_config", None)

    assert caught.value.pointer == "/thinker_config"


def test_a_wrapper_of_an_unknown_text_model_names_the_text_model() -> None:
    text = {"architectures": ["LlamaForCausalLMM"], "model_type": "nobody"}
    document = {"architectures": ["InternVLChatModel"], "model_type": "internvl_chat", "llm_config": text}

    with pytest.raises(UnknownArchitecture) as caught:
        read_architecture(read_document(document))

    assert caught.value.class_name == "LlamaForCausalLMM"
    assert "LlamaForCausalLM" in caught.value.nearest


def test_voxtral_in_the_format_of_transformers() -> None:
    """0.20.2, 0.26.0 and 0.33.0 say: 'VoxtralEncoderConfig' object has no attribute 'downsample_factor'."""
    text = {"model_type": "llama", "vocab_size": 1024, "hidden_size": 256, "num_attention_heads": 4}
    config = {
        "architectures": ["VoxtralForConditionalGeneration"],
        "model_type": "voxtral",
        "text_config": text,
        "audio_config": {"model_type": "voxtral_encoder", "hidden_size": 128},
    }

    with pytest.raises(InvalidConfig, match="the engine fails without it") as caught:
        read_architecture(read_document(config))

    assert caught.value.pointer == "/audio_config/downsample_factor"
