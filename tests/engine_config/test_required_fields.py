"""Fields that a class reads without a default, as releases refuse a config that lacks them.

Six releases from 0.20.2 to 0.33.0 were asked of GLM-4.5 without `head_dim`, and 0.20.2, 0.26.0 and 0.33.0 of
GLM-4.5V without it and without `use_qk_norm`, for which Glm4MoeConfig alone has a default. All raised
"'Glm4MoeConfig' object has no attribute 'head_dim'", or the like. 0.20.2, 0.26.0 and 0.33.0 were asked of a
falcon under `RefinedWeb`, whose config class has no base of the rotation, and of Gemma 3's class for text
with a config of text and images, and of Llama 4's; 0.20.2 starts that falcon with any word of its rotation.
0.33.0 was asked of Hunyuan 3 without each of three fields, which 0.26.0 starts; 0.20.2 of dots1 without
`moe_layer_freq` and of MiniMax without `head_dim`, 0.33.0 of Afmoe without its routing.
"""

from typing import Any

import pytest
from packaging.version import Version

from service.advisor.candidates.engine_start import Start
from service.advisor.dry_runs.dry_run import dry_start
from service.architecture.config import read_document
from service.architecture.layers.attention import Attention
from service.architecture.reading import read_architecture
from service.engines.flags import ServeFlags
from service.engines.refusal import EngineRefusal, Stage
from service.engines.releases import rules_for
from service.gpus.catalog import find_gpu

GLM: dict[str, Any] = {
    "hidden_size": 1024,
    "intermediate_size": 2048,
    "moe_intermediate_size": 512,
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "num_hidden_layers": 2,
    "vocab_size": 32000,
    "max_position_embeddings": 4096,
    "torch_dtype": "bfloat16",
}
TEXT = {**GLM, "model_type": "glm4_moe", "architectures": ["Glm4MoeForCausalLM"]}


def vision(**fields: object) -> dict[str, Any]:
    """Return a config of text and images with these fields of the text part."""
    text = {**GLM, "model_type": "glm4v_moe_text", **fields}
    images = {
        "hidden_size": 256,
        "depth": 1,
        "num_heads": 4,
        "intermediate_size": 512,
        "out_hidden_size": 1024,
    }
    return {
        "architectures": ["Glm4vMoeForConditionalGeneration"],
        "model_type": "glm4v_moe",
        "text_config": text,
        "vision_config": images,
        "torch_dtype": "bfloat16",
    }


FALCON: dict[str, Any] = {
    "architectures": ["FalconForCausalLM"],
    "model_type": "RefinedWeb",
    "hidden_size": 512,
    "n_layer": 2,
    "n_head": 8,
    "n_head_kv": 2,
    "vocab_size": 32000,
    "torch_dtype": "bfloat16",
}
GEMMA: dict[str, Any] = {
    "architectures": ["Gemma3ForCausalLM"],
    "model_type": "gemma3",
    "hidden_size": 512,
    "intermediate_size": 1024,
    "num_hidden_layers": 6,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 128,
    "vocab_size": 32000,
    "max_position_embeddings": 8192,
    "sliding_window": 1024,
    "torch_dtype": "bfloat16",
}
MINIMAX: dict[str, Any] = {
    "architectures": ["MiniMaxForCausalLM"],
    "model_type": "minimax",
    "hidden_size": 1024,
    "intermediate_size": 2048,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
    "layer_types": ["full_attention", "linear_attention"],
    "vocab_size": 32000,
    "max_position_embeddings": 8192,
    "head_dim": None,
    "torch_dtype": "bfloat16",
}
DOTS: dict[str, Any] = {
    **GLM,
    "architectures": ["Dots1ForCausalLM"],
    "model_type": "dots1",
    "n_shared_experts": 1,
    "first_k_dense_replace": 1,
    "head_dim": 128,
}


LLAMA4: dict[str, Any] = {
    "architectures": ["Llama4ForCausalLM"],
    "model_type": "llama4",
    "hidden_size": 512,
    "intermediate_size": 1024,
    "intermediate_size_mlp": 1024,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "num_local_experts": 2,
    "num_experts_per_tok": 1,
    "attention_chunk_size": 8192,
    "interleave_moe_layer_step": 1,
    "vocab_size": 32000,
    "max_position_embeddings": 4096,
    "torch_dtype": "bfloat16",
}
HUNYUAN: dict[str, Any] = {
    **GLM,
    "architectures": ["HYV3ForCausalLM"],
    "model_type": "hy_v3",
    "head_dim": 64,
    "num_experts": 4,
    "expert_hidden_dim": 256,
    "num_shared_experts": 1,
    "first_k_dense_replace": 1,
    "route_norm": True,
}

AFMOE: dict[str, Any] = {
    **GLM,
    "architectures": ["AfmoeForCausalLM"],
    "model_type": "afmoe",
    "head_dim": 64,
    "num_experts": 4,
    "num_shared_experts": 1,
    "num_dense_layers": 1,
    "score_func": "sigmoid",
    "route_norm": True,
    "n_group": 1,
    "topk_group": 1,
}


def start(config: dict[str, Any], release: str) -> Start:
    flags = ServeFlags(max_model_len=1024)
    return dry_start(
        read_architecture(read_document(config)),
        flags,
        rules_for(Version(release)),
        find_gpu("h100-sxm-80gb"),
    )


@pytest.mark.parametrize("release", ["0.20.2", "0.26.0", "0.33.0"])
@pytest.mark.parametrize(
    ("config", "field"),
    [(TEXT, "head_dim"), (vision(use_qk_norm=False), "head_dim"), (vision(head_dim=128), "use_qk_norm")],
)
def test_a_class_does_not_start_without_a_field_that_it_reads(
    config: dict[str, Any], field: str, release: str
) -> None:
    with pytest.raises(EngineRefusal, match=f"object has no attribute '{field}'") as refused:
        start(config, release)

    assert (refused.value.stage, refused.value.type) == (Stage.MODEL, "AttributeError")


@pytest.mark.parametrize(
    "config", [{**TEXT, "head_dim": 128}, vision(head_dim=128, use_qk_norm=False)], ids=["text", "images"]
)
def test_with_these_fields_it_does(config: dict[str, Any]) -> None:
    start(config, "0.33.0")


LINEAR = {"rope_type": "linear", "factor": 2.0}


@pytest.mark.parametrize("release", ["0.20.2", "0.26.0", "0.33.0"])
@pytest.mark.parametrize("fields", [{}, {"rope_theta": None}])
def test_falcon_needs_a_base_of_its_rotation(fields: dict[str, Any], release: str) -> None:
    with pytest.raises(EngineRefusal, match="object has no attribute 'rope_parameters'"):
        start({**FALCON, **fields}, release)


@pytest.mark.parametrize("release", ["0.26.0", "0.33.0"])
@pytest.mark.parametrize(
    ("fields", "error", "words"),
    [
        ({"partial_rotary_factor": 0.5}, "AttributeError", "no attribute 'rope_parameters'"),
        ({"rotary_pct": 0.5}, "AttributeError", "no attribute 'rope_parameters'"),
        ({"original_max_position_embeddings": 2048}, "AttributeError", "no attribute 'rope_parameters'"),
        ({"rope_scaling": LINEAR}, "TypeError", "'NoneType' and 'Tensor'"),
        ({"rope_scaling": LINEAR, "partial_rotary_factor": 0.5}, "TypeError", "'NoneType' and 'Tensor'"),
        ({"rope_theta": 10_000}, "AttributeError", "no attribute 'tie_word_embeddings'"),
        ({"rope_scaling": None}, "AttributeError", "no attribute 'tie_word_embeddings'"),
        ({"rope_scaling": {**LINEAR, "rope_theta": 1e4}}, "AttributeError", "no attribute 'tie_word_"),
    ],
)
def test_with_transformers_5_it_needs_the_base_itself(
    fields: dict[str, Any], error: str, words: str, release: str
) -> None:
    with pytest.raises(EngineRefusal, match=words) as refused:
        start({**FALCON, **fields}, release)

    assert (refused.value.stage, refused.value.type) == (Stage.MODEL, error)


@pytest.mark.parametrize(
    ("fields", "release"),
    [
        ({"rope_theta": 10_000, "tie_word_embeddings": True}, "0.33.0"),
        ({"alibi": True, "tie_word_embeddings": True}, "0.33.0"),
        ({}, "0.11.2"),
        ({"rope_scaling": LINEAR}, "0.20.2"),
        ({"rope_parameters": None}, "0.20.2"),
        ({"partial_rotary_factor": 0.5}, "0.20.2"),
        ({"original_max_position_embeddings": 2048}, "0.20.2"),
    ],
)
def test_it_starts_with_one_without_rotation_and_on_releases_that_have_a_default(
    fields: dict[str, Any], release: str
) -> None:
    start({**FALCON, **fields}, release)


OMNI: dict[str, Any] = {
    "architectures": ["Qwen3OmniMoeForConditionalGeneration"],
    "model_type": "qwen3_omni_moe",
    "torch_dtype": "bfloat16",
    "thinker_config": {
        "model_type": "qwen3_omni_moe_thinker",
        "text_config": {
            "model_type": "qwen3_omni_moe_text",
            "hidden_size": 1024,
            "intermediate_size": 2048,
            "moe_intermediate_size": 512,
            "num_hidden_layers": 2,
            "num_attention_heads": 8,
            "num_key_value_heads": 2,
            "num_experts": 8,
            "num_experts_per_tok": 2,
            "vocab_size": 32000,
        },
    },
}


@pytest.mark.parametrize("release", ["0.26.0", "0.33.0"])
def test_the_text_of_qwen3_omni_reads_whether_its_output_is_tied(release: str) -> None:
    """The word of the thinker between them does not count, that of the whole config does: both were asked."""
    thinker = {**OMNI["thinker_config"], "tie_word_embeddings": False}
    for config in (OMNI, {**OMNI, "thinker_config": thinker}):
        with pytest.raises(EngineRefusal, match="object has no attribute 'tie_word_embeddings'"):
            start(config, release)

    start({**OMNI, "tie_word_embeddings": False}, release)
    start(OMNI, "0.20.2")


@pytest.mark.parametrize("release", ["0.20.2", "0.26.0", "0.33.0"])
@pytest.mark.parametrize(
    ("fields", "field"), [({}, "attention_bias"), ({"attention_bias": False}, "layer_types")]
)
def test_a_class_for_text_reads_a_config_of_text_and_images_as_a_whole(
    fields: dict[str, Any], field: str, release: str
) -> None:
    with pytest.raises(EngineRefusal, match=f"object has no attribute '{field}'"):
        start({**GEMMA, **fields}, release)


def test_it_starts_with_a_config_of_text() -> None:
    start({**GEMMA, "model_type": "gemma3_text"}, "0.33.0")


def test_dots1_reads_how_often_a_layer_has_experts() -> None:
    with pytest.raises(EngineRefusal, match="object has no attribute 'moe_layer_freq'"):
        start(DOTS, "0.20.2")

    start({**DOTS, "moe_layer_freq": 1}, "0.20.2")
    start(DOTS, "0.24.0")


def test_minimax_multiplies_by_the_size_of_a_head() -> None:
    with pytest.raises(EngineRefusal, match="'int' and 'NoneType'") as refused:
        start(MINIMAX, "0.20.2")

    assert (refused.value.stage, refused.value.type) == (Stage.BLOCK_SIZE, "TypeError")
    start({**MINIMAX, "head_dim": 128}, "0.20.2")


@pytest.mark.parametrize("release", ["0.20.2", "0.26.0", "0.33.0"])
def test_llama_4_for_text_reads_a_config_of_text_and_images_as_a_whole(release: str) -> None:
    with pytest.raises(EngineRefusal, match="object has no attribute 'no_rope_layers'"):
        start(LLAMA4, release)

    with pytest.raises(EngineRefusal, match="object has no attribute 'use_qk_norm'"):
        start({**LLAMA4, "no_rope_layers": [1, 1]}, release)

    start({**LLAMA4, "no_rope_layers": [1, 1], "use_qk_norm": True}, release)


@pytest.mark.parametrize(
    ("field", "error", "words"),
    [
        ("first_k_dense_replace", "ValueError", "first_k_dense_replace not exist,please check config"),
        ("expert_hidden_dim", "AttributeError", "object has no attribute 'expert_hidden_dim'"),
        ("route_norm", "AttributeError", "object has no attribute 'route_norm'"),
    ],
)
def test_hunyuan_3_needs_fields_since_its_config_class_is_of_transformers(
    field: str, error: str, words: str
) -> None:
    without = {name: value for name, value in HUNYUAN.items() if name != field}
    with pytest.raises(EngineRefusal, match=words) as refused:
        start(without, "0.33.0")

    assert (refused.value.stage, refused.value.type) == (Stage.MODEL, error)
    start(without, "0.26.0")
    start(HUNYUAN, "0.33.0")


@pytest.mark.parametrize("field", ["score_func", "route_norm", "n_group", "topk_group"])
def test_afmoe_needs_its_routing_since_its_config_class_is_of_transformers(field: str) -> None:
    """0.33.0 was asked of the default config, and said this of ``score_func``."""
    without = {name: value for name, value in AFMOE.items() if name != field}
    with pytest.raises(EngineRefusal, match=f"object has no attribute '{field}'") as refused:
        start(without, "0.33.0")

    assert (refused.value.stage, refused.value.type) == (Stage.MODEL, "AttributeError")
    start(without, "0.31.0")
    start(AFMOE, "0.33.0")
    start({**without, "num_dense_layers": AFMOE["num_hidden_layers"]}, "0.33.0")


def test_the_images_of_qwen4_need_the_layers_whose_features_are_added() -> None:
    """0.33.0 was asked of it without a part on images: the default one has no such field."""
    text = {
        **OMNI["thinker_config"]["text_config"],
        "model_type": "qwen4_exp_text",
        "shared_expert_intermediate_size": 512,
    }
    config = {
        "architectures": ["Qwen4ExpForConditionalGeneration"],
        "model_type": "qwen4_exp",
        "torch_dtype": "bfloat16",
        "text_config": text,
    }
    with pytest.raises(EngineRefusal, match="object has no attribute 'deepstack_visual_indexes'"):
        start(config, "0.33.0")


@pytest.mark.parametrize("release", ["0.20.2", "0.26.0", "0.33.0"])
def test_mistral_for_text_reads_a_config_of_text_and_images_as_a_whole(release: str) -> None:
    flat = {**GLM, "architectures": ["MistralForCausalLM"], "model_type": "mistral3"}
    with pytest.raises(EngineRefusal, match="object has no attribute 'hidden_act'"):
        start(flat, release)

    with pytest.raises(EngineRefusal, match="object has no attribute 'rms_norm_eps'"):
        start({**flat, "hidden_act": "silu"}, release)

    start({**flat, "hidden_act": "silu", "rms_norm_eps": 1e-5, "tie_word_embeddings": False}, release)
    both = {"architectures": ["Mistral3ForConditionalGeneration"], "model_type": "mistral3"}
    start({**both, "torch_dtype": "bfloat16", "text_config": {**GLM, "model_type": "mistral"}}, release)


PHI: dict[str, Any] = {
    "architectures": ["PhiForCausalLM"],
    "model_type": "phi",
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 2,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 32000,
    "max_position_embeddings": 2048,
    "torch_dtype": "bfloat16",
}


@pytest.mark.parametrize(("release", "heads"), [("0.20.2", 32), ("0.29.0", 32), ("0.32.0", 8)])
def test_phis_own_class_gives_each_head_its_keys(release: str, heads: int) -> None:
    """Asked: 0.20.2, 0.26.0 and 0.29.0 cache 32 heads, 0.32.0, where transformers runs Phi, 8."""
    layers = start(PHI, release).architecture.layers

    assert [layer.mixer.num_kv_heads for layer in layers if isinstance(layer.mixer, Attention)] == [heads] * 2
