"""Activation functions that classes do not have, as releases refuse them.

vLLM 0.20.2 and 0.33.0 were asked of every class that is read, with another function than its own: the classes
named in `activations.toml` refused it in these words, and no class that is not named there.
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
