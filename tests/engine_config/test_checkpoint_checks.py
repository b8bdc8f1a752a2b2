"""Checkpoints that a release refuses by their config alone, against what releases answered."""

import pytest

from service.advisor.dry_runs.dry_run import dry_start
from service.architecture.config import InvalidConfig, read_document
from service.architecture.quantization import Quantization
from service.architecture.reading import read_architecture
from service.engine_config.weight_quantization import check_modelopt_file
from service.engines.flags import ServeFlags
from service.engines.refusal import EngineRefusal
from service.engines.releases import find_release, rules_for
from service.gpus.catalog import find_gpu

QWEN_TEXT = {
    "architectures": ["Qwen3_5MoeForConditionalGeneration"],
    "model_type": "qwen3_5_moe_text",
    "vocab_size": 1024,
    "hidden_size": 256,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 128,
    "shared_expert_intermediate_size": 128,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 32,
    "linear_value_head_dim": 32,
    "linear_conv_kernel_dim": 4,
    "layer_types": ["linear_attention"] * 3 + ["full_attention"],
    "max_position_embeddings": 4096,
}


@pytest.mark.parametrize(
    ("release", "algorithm", "known"),
    [
        ("0.13.0", "FP8_PB_WO", False),
        ("0.14.0", "fp8_pb_wo", True),
        (
            "0.26.0",
            "MIXED_PRECISION",
            False,
        ),  # asked, as the next: NVIDIA-Nemotron-3.5-Lightning-30B-A3B-NVFP4
        ("0.33.0", "MIXED_PRECISION", True),
    ],
)
def test_a_release_knows_some_algorithms_of_modelopts_own_file(
    release: str, algorithm: str, known: bool
) -> None:
    stored = Quantization("modelopt_mixed", file_algorithm=algorithm)
    rules = rules_for(find_release(release)).layouts
    words = ""
    try:
        check_modelopt_file(stored, rules)
    except EngineRefusal as refusal:
        words = str(refusal)

    assert ("Unknown ModelOpt quant algo" not in words) is known


@pytest.mark.parametrize(
    ("name", "release", "refused"),
    [
        ("Qwen3_5MoeForConditionalGeneration", "0.26.0", "AttributeError"),
        ("Qwen3_5MoeForConditionalGeneration", "0.33.0", "AttributeError"),
        ("Qwen3_5MoeForCausalLM", "0.33.0", None),
    ],
)
def test_a_config_of_text_alone_needs_the_class_for_text(
    name: str, release: str, refused: str | None
) -> None:
    """Asked of 0.26.0: 'Qwen3_5MoeTextConfig' object has no attribute 'vision_config'."""
    architecture = read_architecture(read_document({**QWEN_TEXT, "architectures": [name]}))
    rules = rules_for(find_release(release))
    found = None
    try:
        dry_start(architecture, ServeFlags(max_model_len=2048), rules, find_gpu("h100-sxm-80gb"))
    except EngineRefusal as refusal:
        found = refusal.type

    assert found == refused


def test_the_first_chatglm_is_not_what_the_class_runs() -> None:
    """Asked of 0.20.2 and 0.26.0 about chatglm-6b: the config has no attribute 'original_rope'."""
    config = {
        "architectures": ["ChatGLMModel"],
        "model_type": "chatglm",
        "hidden_size": 4096,
        "inner_hidden_size": 16_384,
        "num_attention_heads": 32,
        "num_layers": 28,
        "vocab_size": 130_528,
        "max_sequence_length": 2048,
    }

    with pytest.raises(InvalidConfig, match="original_rope"):
        read_architecture(read_document(config))


LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 1024,
    "hidden_size": 1024,
    "intermediate_size": 2048,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "max_position_embeddings": 4096,
    "torch_dtype": "bfloat16",
}


@pytest.mark.parametrize(
    ("section", "refused"),
    [
        ({"quant_method": "fp8", "activation_scheme": "dynamic"}, False),
        ({"quant_method": "fp8"}, True),
        ({"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128]}, True),
    ],
)
@pytest.mark.parametrize("release", ["0.20.2", "0.26.0", "0.33.0"])
def test_fp8_needs_its_activation_scheme(release: str, section: dict[str, object], *, refused: bool) -> None:
    """These releases were asked of a Qwen3 in each."""
    architecture = read_architecture(read_document({**LLAMA, "quantization_config": section}))
    rules, gpu = rules_for(find_release(release)), find_gpu("h100-sxm-80gb")

    if not refused:
        dry_start(architecture, ServeFlags(), rules, gpu)
        return
    words = r"Cannot find any of \['activation_scheme'\] in the model's quantization config"
    with pytest.raises(EngineRefusal, match=words) as raised:
        dry_start(architecture, ServeFlags(), rules, gpu)
    assert raised.value.type == "ValidationError"
