"""Quark's fp8 with static activations, whose scales are one for all or one for each channel.

vLLM 0.20.2, 0.26.0 and 0.33.0 were asked: with a scale for each channel they raise "No quark compatible
scheme was found". With one for all 0.20.2 and 0.33.0 start, asked with a scale for each output of the
weights; the rest follows from quark.py _is_fp8_w8a8.
"""

from typing import Any

import pytest
from packaging.version import Version

from service.advisor.dry_runs.dry_run import dry_start
from service.architecture.config import read_document
from service.architecture.reading import read_architecture
from service.engines.flags import ServeFlags
from service.engines.refusal import EngineRefusal, Stage
from service.engines.releases import rules_for
from service.gpus.catalog import find_gpu

RELEASES = ("0.20.2", "0.26.0", "0.33.0")


def start(weights: str, activations: str, release: str, *, dynamic: bool = False) -> None:
    part = {"dtype": "fp8_e4m3", "symmetric": True}
    config: dict[str, Any] = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 512,
        "intermediate_size": 1024,
        "num_hidden_layers": 2,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "vocab_size": 32000,
        "max_position_embeddings": 4096,
        "torch_dtype": "bfloat16",
        "quantization_config": {
            "quant_method": "quark",
            "exclude": ["lm_head"],
            "export": {"kv_cache_group": [], "pack_method": "order"},
            "global_quant_config": {
                "weight": {**part, "qscheme": weights, "is_dynamic": False},
                "input_tensors": {**part, "qscheme": activations, "is_dynamic": dynamic},
            },
            "layer_quant_config": {},
            "layer_type_quant_config": {},
        },
    }
    dry_start(
        read_architecture(read_document(config)),
        ServeFlags(max_model_len=1024),
        rules_for(Version(release)),
        find_gpu("h100-sxm-80gb"),
    )


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("weights", ["per_channel", "per_tensor"])
def test_static_activations_have_one_scale(weights: str, release: str) -> None:
    with pytest.raises(EngineRefusal, match="No quark compatible scheme was found") as refused:
        start(weights, "per_channel", release)

    assert (refused.value.stage, refused.value.type) == (Stage.MODEL, "NotImplementedError")
    start(weights, "per_tensor", release)
    start(weights, "per_channel", release, dynamic=True)
