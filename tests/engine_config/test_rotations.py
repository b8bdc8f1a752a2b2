"""Rotary positions that vLLM 0.20.2, 0.26.0 and 0.33.0 were asked about, in their words."""

from collections.abc import Mapping
from typing import Any, Final

import pytest
from packaging.version import Version

from service.advisor.dry_runs.dry_run import dry_start
from service.architecture.config import read_document
from service.architecture.reading import read_architecture
from service.engines.flags import ServeFlags
from service.engines.refusal import EngineRefusal
from service.engines.releases import rules_for
from service.gpus.catalog import find_gpu

SIZES: Final[Mapping[str, Any]] = {
    "hidden_size": 1024,
    "intermediate_size": 2048,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "num_hidden_layers": 4,
    "vocab_size": 32_000,
    "max_position_embeddings": 8192,
    "torch_dtype": "bfloat16",
}
LLAMA: Final = {**SIZES, "architectures": ["LlamaForCausalLM"], "model_type": "llama"}
OLMO3: Final = {**SIZES, "architectures": ["Olmo3ForCausalLM"], "model_type": "olmo3"}
DEEPSEEK: Final = {
    **SIZES,
    "architectures": ["DeepseekV3ForCausalLM"],
    "model_type": "deepseek_v3",
    "num_key_value_heads": 16,
    "kv_lora_rank": 512,
    "q_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "n_routed_experts": 8,
    "n_shared_experts": 1,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 512,
    "first_k_dense_replace": 1,
}
NESTED: Final = {
    "rope_parameters": {
        "full_attention": {"rope_type": "default", "rope_theta": 1e6},
        "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
    }
}
YARN: Final = {"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}
LINEAR: Final = {"rope_scaling": {"rope_type": "linear", "factor": 2.0}}
UNSCALED: Final = {"rope_type": "linear", "rope_theta": 5e5}
CONFLICT: Final = {"rope_type": "default", "type": "linear", "factor": 2.0}
NO_TYPE: Final = "should have a 'rope_type' key"
LENGTH: Final = "'original_max_position_embeddings'"


def _start(config: Mapping[str, Any], release: str) -> None:
    architecture = read_architecture(read_document(config))
    dry_start(
        architecture, ServeFlags(max_model_len=2048), rules_for(Version(release)), find_gpu("h100-sxm-80gb")
    )


def test_a_later_release_leaves_positions_of_types_of_layers_as_they_are() -> None:
    """vLLM 0.21.0, patch_rope_parameters: `if is_rope_parameters_nested(...): pass`."""
    _start({**OLMO3, **NESTED}, "0.21.0")
    with pytest.raises(EngineRefusal, match=NO_TYPE):
        _start({**OLMO3, "rope_parameters": {"rope_theta": 1e6}}, "0.21.0")


@pytest.mark.parametrize(
    ("config", "release", "kind", "words"),
    [
        ({**LLAMA, **NESTED}, "0.20.2", "ValidationError", NO_TYPE),
        ({**OLMO3, **NESTED}, "0.20.2", "ValidationError", NO_TYPE),
        ({**LLAMA, "rope_parameters": {"rope_theta": 1e6}}, "0.20.2", "ValidationError", NO_TYPE),
        ({**LLAMA, "rope_parameters": CONFLICT}, "0.20.2", "ValidationError", "Found conflicts between"),
        ({**OLMO3, "rope_scaling": CONFLICT}, "0.20.2", "ValidationError", "Found conflicts between"),
        ({**LLAMA, "rope_scaling": {"factor": 2.0}}, "0.20.2", "KeyError", "{'rope_type'}"),
        (
            {**OLMO3, "rope_scaling": {"type": "linear", "factor": 2.0}},
            "0.20.2",
            "KeyError",
            "Missing required keys in `rope_scaling` for 'rope_type'='linear': {'rope_type'}",
        ),
        ({**LLAMA, "rope_scaling": {"rope_type": "dynamic"}}, "0.20.2", "KeyError", "{'factor'}"),
        ({**LLAMA, **YARN}, "0.20.2", "KeyError", LENGTH),
        ({**DEEPSEEK, **LINEAR}, "0.20.2", "KeyError", LENGTH),
        ({**DEEPSEEK, **LINEAR}, "0.26.0", "KeyError", LENGTH),
        ({**DEEPSEEK, **LINEAR}, "0.33.0", "KeyError", LENGTH),
    ],
)
def test_what_a_release_does_not_read_is_refused_in_its_words(
    config: Mapping[str, Any], release: str, kind: str, words: str
) -> None:
    with pytest.raises(EngineRefusal) as raised:
        _start(config, release)

    assert raised.value.type == kind
    assert words in str(raised.value)


@pytest.mark.parametrize(
    ("config", "release"),
    [
        ({**LLAMA, "rope_parameters": {"rope_type": "default", "rope_theta": 1e6}}, "0.20.2"),
        ({**LLAMA, "rope_scaling": CONFLICT}, "0.20.2"),
        ({**LLAMA, **LINEAR}, "0.20.2"),
        ({**LLAMA, **YARN}, "0.26.0"),
        ({**LLAMA, **YARN}, "0.33.0"),
        ({**DEEPSEEK, **YARN}, "0.33.0"),
        ({**OLMO3, **NESTED}, "0.33.0"),
        ({**OLMO3, "rope_parameters": UNSCALED}, "0.33.0"),  # asked: it drops what types of layers share
    ],
)
def test_what_a_release_reads_is_planned(config: Mapping[str, Any], release: str) -> None:
    _start(config, release)
