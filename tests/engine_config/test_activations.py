"""Activation functions that classes do not have, as releases refuse them.

vLLM 0.20.2 and 0.33.0 were asked of every class that is read, with another function than its own: the classes
named in `activations.toml` refused it in these words, and no class that is not named there. Where each layer
has routed experts alone, both start Granite 4 and Ernie 4.5 with `gelu`, and 0.33.0 Jamba and Qwen2-MoE; with
a shared network both refuse Granite 4. GLM-4.5's experts were read in the source (Glm4MoE).
"""

from typing import Any, Final

import pytest
from packaging.version import Version

from service.architecture.config import read_document
from service.architecture.reading import read_architecture
from service.engine_config.activations import check_activation
from service.engines.refusal import EngineRefusal, Stage

SIZES: dict[str, Any] = {
    "hidden_size": 512,
    "intermediate_size": 1024,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "vocab_size": 32000,
    "max_position_embeddings": 4096,
    "torch_dtype": "bfloat16",
}
EXPERTS: dict[str, Any] = {
    **SIZES,
    "hidden_act": "gelu",
    "num_experts": 4,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 256,
}
GRANITE: dict[str, Any] = {
    **EXPERTS,
    "architectures": ["GraniteMoeHybridForCausalLM"],
    "model_type": "granitemoehybrid",
    "layer_types": ["attention", "attention"],
    "shared_intermediate_size": 0,
    "mamba_n_heads": 16,
    "mamba_d_head": 64,
}
ERNIE: dict[str, Any] = {
    **EXPERTS,
    "architectures": ["Ernie4_5_MoeForCausalLM"],
    "model_type": "ernie4_5_moe",
    "moe_num_experts": 4,
    "moe_k": 2,
    "moe_num_shared_experts": 0,
    "moe_layer_start_index": 0,
    "moe_layer_interval": 1,
}
JAMBA: dict[str, Any] = {
    **EXPERTS,
    "architectures": ["JambaForCausalLM"],
    "model_type": "jamba",
    "expert_layer_period": 1,
    "expert_layer_offset": 0,
    "attn_layer_period": 2,
    "attn_layer_offset": 1,
    "mamba_d_state": 16,
    "mamba_d_conv": 4,
    "mamba_expand": 2,
    "mamba_dt_rank": 32,
}
QWEN: dict[str, Any] = {
    **EXPERTS,
    "architectures": ["Qwen2MoeForCausalLM"],
    "model_type": "qwen2_moe",
    "shared_expert_intermediate_size": 0,
    "decoder_sparse_step": 1,
}
GEMMA2: Final = (
    "Gemma2 uses `gelu_pytorch_tanh` as the hidden activation function. Please set `hidden_activation` to "
    "`gelu_pytorch_tanh`."
)
KIMI: dict[str, Any] = {
    **SIZES,
    "architectures": ["KimiLinearForCausalLM"],
    "model_type": "kimi_linear",
    "num_experts": 4,
    "num_experts_per_token": 2,
    "moe_intermediate_size": 256,
    "kv_lora_rank": 64,
    "qk_nope_head_dim": 64,
    "qk_rope_head_dim": 32,
    "v_head_dim": 64,
    "linear_attn_config": {
        "full_attn_layers": [2],
        "kda_layers": [1],
        "head_dim": 64,
        "num_heads": 8,
        "short_conv_kernel_size": 4,
    },
}


def check(config: dict[str, Any], release: str) -> None:
    check_activation(read_architecture(read_document(config)), Version(release))


def named(class_name: str, model_type: str, **fields: object) -> dict[str, Any]:
    return {**SIZES, "architectures": [class_name], "model_type": model_type, **fields}


@pytest.mark.parametrize("release", ["0.20.2", "0.33.0"])
@pytest.mark.parametrize(
    ("config", "words"),
    [
        (
            named("LlamaForCausalLM", "llama", hidden_act="gelu"),
            "Unsupported activation: gelu. Only silu is supported for now.",
        ),
        (
            named("ApertusForCausalLM", "apertus", hidden_act="silu"),
            "Unsupported activation: silu. Only xIELU is supported for now.",
        ),
        (
            named("Gemma2ForCausalLM", "gemma2", hidden_activation="silu", head_dim=64),
            GEMMA2,
        ),
    ],
)
def test_a_class_refuses_an_activation_that_it_does_not_have(
    config: dict[str, Any], words: str, release: str
) -> None:
    with pytest.raises(EngineRefusal) as refused:
        check(config, release)

    assert (str(refused.value), refused.value.stage, refused.value.type) == (words, Stage.MODEL, "ValueError")


def test_the_text_model_within_another_class_decides() -> None:
    llama = {**SIZES, "model_type": "llama", "hidden_act": "gelu"}
    images = {
        "model_type": "clip_vision_model",
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 1,
        "num_attention_heads": 4,
        "image_size": 28,
        "patch_size": 14,
        "hidden_act": "quick_gelu",
    }
    whole = {
        "architectures": ["LlavaForConditionalGeneration"],
        "model_type": "llava",
        "text_config": llama,
        "vision_config": images,
        "torch_dtype": "bfloat16",
    }
    with pytest.raises(EngineRefusal, match="Only silu is supported for now"):
        check(whole, "0.33.0")

    check({**whole, "text_config": {**llama, "hidden_act": "silu"}}, "0.33.0")


def test_kimi_linear_has_situ_since_a_release() -> None:
    situ = {**KIMI, "hidden_act": "situ"}
    with pytest.raises(EngineRefusal, match="Unsupported activation: situ"):
        check(situ, "0.26.0")

    check(situ, "0.27.0")
    with pytest.raises(EngineRefusal, match="Only silu and situ are supported"):
        check({**KIMI, "hidden_act": "gelu"}, "0.33.0")


@pytest.mark.parametrize(
    "config",
    [
        named("LlamaForCausalLM", "llama"),
        named("LlamaForCausalLM", "llama", hidden_act="silu"),
        named("OlmoForCausalLM", "olmo", hidden_act="gelu"),
    ],
    ids=["none named", "its own", "a class that takes any"],
)
def test_other_configs_are_not_refused(config: dict[str, Any]) -> None:
    check(config, "0.33.0")


@pytest.mark.parametrize("release", ["0.20.2", "0.33.0"])
@pytest.mark.parametrize("config", [GRANITE, ERNIE, JAMBA, QWEN], ids=["granite", "ernie", "jamba", "qwen"])
def test_routed_experts_alone_take_what_they_get(config: dict[str, Any], release: str) -> None:
    check(config, release)


@pytest.mark.parametrize("release", ["0.20.2", "0.33.0"])
@pytest.mark.parametrize(
    "config",
    [
        {**GRANITE, "shared_intermediate_size": 512},
        named("Glm4MoeForCausalLM", "glm4_moe", **{**EXPERTS, "n_shared_experts": 0, "head_dim": 64}),
    ],
    ids=["a shared network", "experts that look"],
)
def test_networks_beside_them_and_experts_of_some_classes_do_not(
    config: dict[str, Any], release: str
) -> None:
    with pytest.raises(EngineRefusal, match="Unsupported activation: gelu"):
        check(config, release)
