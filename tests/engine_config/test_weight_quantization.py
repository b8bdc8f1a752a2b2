"""``--quantization`` beside what a checkpoint says, against what releases answered and their source."""

from collections.abc import Mapping

import pytest

from service.architecture.config import read_document
from service.architecture.quantization import Quantization
from service.architecture.reading import read_architecture
from service.engine_config.checkpoint_checks import check_checkpoint
from service.engine_config.weight_quantization import check_methods
from service.engines.refusal import EngineRefusal
from service.engines.releases import find_release, rules_for
from service.gpus.capability import ComputeCapability

LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 1024,
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 4096,
}


def _said(quantization: Mapping[str, object], flag: str, release: str) -> str:
    model = read_architecture(read_document({**LLAMA, "quantization_config": quantization}))
    try:
        check_methods(model, flag, rules_for(find_release(release)).checkpoints)
    except EngineRefusal as refusal:
        return str(refusal)
    return ""


def _file_of(algorithm: str) -> dict[str, object]:
    """Return what ModelOpt writes into a file of its own, in the place of the config's section."""
    return {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": algorithm, "group_size": 16}}


@pytest.mark.parametrize(
    ("algorithm", "release", "fits"),
    [
        ("NVFP4", "0.33.0", True),  # asked, with --quantization fp8: runs as modelopt_fp4
        ("NVFP4", "0.22.0", True),  # _extract_modelopt_quant_algo: any name that begins with modelopt
        ("NVFP4", "0.21.0", False),  # the name modelopt alone, and the file is read as modelopt_fp4
        ("FP8", "0.21.0", True),  # read as modelopt
    ],
)
def test_a_file_of_modelopts_is_run_as_its_whatever_the_flag_says(
    algorithm: str, release: str, fits: bool
) -> None:
    said = _said(_file_of(algorithm), "fp8", release)

    assert ("(modelopt_fp4) does not match" in said) is not fits


def test_beside_a_section_without_a_method_a_flag_is_taken_only_of_what_claims_any() -> None:
    """ModelOpt's file without its producer, which a training run wrote. vLLM 0.26.0 was asked."""
    unnamed = {"quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}}

    assert _said(unnamed, "bitsandbytes", "0.26.0") == (
        "ModelConfig: Quantization method specified in the model config (None) does not match the "
        "quantization method specified in the `quantization` argument (bitsandbytes)."
    )
    assert not _said(unnamed, "humming", "0.26.0")  # HummingConfig.override_quantization_method


def test_weights_quantized_while_they_load_run_in_16_bits_of_either_kind() -> None:
    """vLLM 0.33.0 was asked for GPT-2 in float16; what is stored in MXFP8 wants bfloat16 (modelopt.py)."""
    rules, hopper = rules_for(find_release("0.33.0")).checkpoints, ComputeCapability(9, 0)

    check_checkpoint(Quantization("mxfp8"), "float16", hopper, rules, flag="mxfp8")
    with pytest.raises(EngineRefusal, match=r"float16 is not supported for .* modelopt_mxfp8"):
        check_checkpoint(Quantization("mxfp8", by_modelopt=True), "float16", hopper, rules)
