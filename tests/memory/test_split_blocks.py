"""Which projections may be cut inside a block of FP8 weights that shares a scale, and what stops others."""

from typing import Any

import pytest
from packaging.version import Version

from service.architecture.config import read_document
from service.architecture.model import ModelArchitecture
from service.architecture.reading import read_architecture
from service.engines.refusal import EngineRefusal
from service.memory.parallelism import Parallelism
from service.memory.weights.checks.layout_checks import check_layouts
from service.memory.weights.counts.parameters import layer_modules_of
from service.memory.weights.modules import Linear
from tests.accuracy.oracle import bundled_architecture

DEEPSEEK_V4 = "nvidia/DeepSeek-V4-Pro-NVFP4"
"""A shared expert of 3072; blocks of 128 x 128."""
BLOCKS = {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}
COMPRESSED_BLOCKS = {
    "quant_method": "compressed-tensors",
    "format": "float-quantized",
    "ignore": ["lm_head"],
    "config_groups": {
        "group_0": {
            "targets": ["Linear"],
            "weights": {
                "num_bits": 8,
                "type": "float",
                "strategy": "block",
                "block_structure": [128, 128],
                "symmetric": True,
                "dynamic": False,
            },
            "input_activations": {
                "num_bits": 8,
                "type": "float",
                "strategy": "group",
                "group_size": 128,
                "symmetric": True,
                "dynamic": True,
            },
        }
    },
}
CUT = "is not divisible by weight quantization block_n = 128."
QWEN_MOE = {
    "architectures": ["Qwen2MoeForCausalLM"],
    "model_type": "qwen2_moe",
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "moe_intermediate_size": 512,
    "shared_expert_intermediate_size": 512,
    "num_experts": 256,
    "num_experts_per_tok": 8,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "num_hidden_layers": 2,
    "vocab_size": 32000,
    "torch_dtype": "bfloat16",
    "quantization_config": BLOCKS,
}


def refusal(document: dict[str, Any], release: str, deployment: Parallelism) -> str | None:
    return _said(read_architecture(read_document(document)), release, deployment)


def _said(architecture: ModelArchitecture, release: str, deployment: Parallelism) -> str | None:
    try:
        check_layouts(architecture, deployment, Version(release))
    except EngineRefusal as refused:
        return str(refused)
    return None


@pytest.mark.parametrize("release", ["0.20.0", "0.23.0"])
def test_a_cut_shared_expert_of_deepseek_v4_stops_in_its_second_projection(release: str) -> None:
    """The words of vllm-project/vllm#42384 (0.20) and #45784 (0.23.0), TP 16."""
    found = _deepseek(release, 16)

    assert found is not None
    assert (
        "Weight input_size_per_partition = 192 is not divisible by weight quantization block_k = 128."
        in found
    )


@pytest.mark.parametrize("release", ["0.24.0", "0.27.0", "0.33.0"])
def test_a_shared_expert_of_deepseek_v4_is_padded_to_whole_blocks(release: str) -> None:
    """DeepseekV4MLP since 0.24.0: 24 blocks over 16 ranks are two on each, 256 outputs; over eight, three."""
    assert _deepseek(release, 16) is None
    assert _shared_width(release, 16) == (256, 256)
    assert _shared_width(release, 8) == (384, 384)


def test_what_a_shared_expert_of_512_over_eight_ranks_raises() -> None:
    """The words of vllm-project/vllm pull request 52915, of a model with such a shared expert."""
    found = refusal(QWEN_MOE, "0.22.0", Parallelism(tensor_parallel_size=8, enable_expert_parallel=True))

    assert found is not None
    assert (
        "Weight input_size_per_partition = 64 is not divisible by weight quantization block_k = 128." in found
    )


def test_a_shared_expert_that_sequence_parallelism_may_keep_whole_is_not_refused() -> None:
    """ParallelConfig.use_sequence_parallel_moe: expert parallelism with more than one rank and replica."""
    deployment = Parallelism(tensor_parallel_size=8, data_parallel_size=2, enable_expert_parallel=True)

    assert refusal(QWEN_MOE, "0.22.0", deployment) is None


def test_fused_projections_cut_inside_a_block_are_refused_as_a_release_does() -> None:
    """0.13.0 refuses the fused projections themselves; later ones only where the config states no block."""
    cut = Parallelism(tensor_parallel_size=8, enable_expert_parallel=True)

    assert "Weight output_partition_size = 64" in (refusal(QWEN_MOE, "0.13.0", cut) or "")
    assert "Weight input_size_per_partition = 64" in (refusal(QWEN_MOE, "0.14.0", cut) or "")


def test_a_later_layer_is_looked_at_though_an_earlier_one_has_its_names() -> None:
    """A dense layer of 8192 is cut into eight parts of 1024; a shared expert of 512 into parts of 64."""
    sparse = QWEN_MOE | {
        "architectures": ["DeepseekV3ForCausalLM"],
        "model_type": "deepseek_v3",
        "n_routed_experts": 256,
        "n_shared_experts": 1,
        "first_k_dense_replace": 1,
        "moe_layer_freq": 1,
        "n_group": 8,
        "topk_group": 4,
        "q_lora_rank": 1536,
        "kv_lora_rank": 512,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "v_head_dim": 128,
    }
    split = Parallelism(tensor_parallel_size=8, enable_expert_parallel=True)

    assert "Weight input_size_per_partition = 64" in (refusal(sparse, "0.22.0", split) or "")
    assert refusal(sparse | {"n_shared_experts": None}, "0.22.0", split) is None


@pytest.mark.parametrize(("ranks", "width"), [(4, None), (8, 64)])
def test_heads_cut_inside_a_block_of_compressed_tensors_are_refused(ranks: int, width: int | None) -> None:
    """Eight key heads of 64 over four ranks are 128 outputs each, over eight 64, half a block."""
    document = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 2048,
        "intermediate_size": 8192,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 64,
        "num_hidden_layers": 2,
        "vocab_size": 32000,
        "torch_dtype": "bfloat16",
        "quantization_config": COMPRESSED_BLOCKS,
    }
    found = refusal(document, "0.33.0", Parallelism(tensor_parallel_size=ranks))

    assert found == (width and f"Weight output_partition_size = {width} {CUT}")


def _deepseek(release: str, ranks: int) -> str | None:
    deployment = Parallelism(tensor_parallel_size=ranks, enable_expert_parallel=True)
    return _said(bundled_architecture(DEEPSEEK_V4), release, deployment)


def _shared_width(release: str, ranks: int) -> tuple[int, ...]:
    architecture = bundled_architecture(DEEPSEEK_V4)
    deployment = Parallelism(tensor_parallel_size=ranks, enable_expert_parallel=True)
    modules = layer_modules_of(architecture, deployment, Version(release))[5]
    return next(
        module.outputs
        for module in modules
        if isinstance(module, Linear) and module.name.endswith("shared_experts.gate_up_proj")
    )
