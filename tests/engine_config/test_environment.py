"""Environment variables and replaced config keys, against the releases' own source."""

import shlex
from dataclasses import replace
from typing import Any

import pytest
from packaging.version import Version

from service.advisor.candidates.command import serve_command
from service.advisor.candidates.engine_start import Start
from service.advisor.candidates.warnings import environment_warnings
from service.advisor.dry_runs.dry_run import dry_start
from service.architecture.overrides import overridden
from service.engine_config.environment import estimates_graphs, expands_segments
from service.engines.flags import ServeFlags
from service.engines.refusal import EngineRefusal
from service.engines.releases import find_release, rules_for
from service.gpus.catalog import find_gpu
from tests.accuracy.oracle import bundled_architecture

LLAMA = bundled_architecture("meta-llama/Llama-3.1-8B")


def started(release: str, environment: dict[str, str], **flags: Any) -> Start:  # noqa: ANN401 - any flag's value
    serve = replace(ServeFlags(), environment=tuple(environment.items()), **flags)
    return dry_start(LLAMA, serve, rules_for(find_release(release)), find_gpu("h100-sxm-80gb"))


@pytest.mark.parametrize(
    ("release", "flag", "backend"),
    [
        ("0.11.0", None, "FLASHINFER"),
        ("0.12.0", None, "FLASHINFER"),
        ("0.13.0", "TRITON_ATTN", "FLASHINFER"),
        ("0.28.0", "TRITON_ATTN", "TRITON_ATTN"),
    ],
)
def test_the_variable_names_the_backend_where_the_release_reads_it(
    release: str, flag: str | None, backend: str
) -> None:
    """Before 0.13.0 there is no flag; 0.13.0 lets the variable replace it; 0.28.0 does not read it."""
    start = started(release, {"VLLM_ATTENTION_BACKEND": "FLASHINFER"}, attention_backend=flag)

    assert {each.name for each in start.backends.distinct} == {backend}


def test_a_longer_context_than_the_config_s_needs_the_variable() -> None:
    """Llama 3.1 names 131,072 tokens (ModelConfig.get_and_verify_max_len)."""
    with pytest.raises(EngineRefusal, match="VLLM_ALLOW_LONG_MAX_MODEL_LEN=1"):
        started("0.28.0", {}, max_model_len=200_000)

    start = started("0.28.0", {"VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1"}, max_model_len=200_000)
    assert start.engine_config.max_model_len == 200_000


@pytest.mark.parametrize(("value", "expected"), [("1", True), ("0", False), (None, None)])
def test_graphs_are_counted_in_advance_if_the_variable_says_so(
    value: str | None, expected: bool | None
) -> None:
    pairs = () if value is None else (("VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS", value),)

    assert estimates_graphs(ServeFlags(environment=pairs), Version("0.19.1")) is expected


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True", True),
        ("PYTORCH_ALLOC_CONF", "max_split_size_mb:256, expandable_segments:true", True),
        ("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:False", False),
        ("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:256", False),
        ("VLLM_ALLOC_CONF", "expandable_segments:True", False),
    ],
)
def test_segments_expand_where_pytorch_is_told_so(name: str, value: str, expected: bool) -> None:
    assert expands_segments(ServeFlags(environment=((name, value),))) is expected


def test_variables_stand_before_the_command() -> None:
    flags = ServeFlags(environment=(("VLLM_ATTENTION_BACKEND", "FLASHINFER"), ("X", "a b")))
    command = serve_command("m", flags, rules_for(Version("0.28.0")))

    assert shlex.split(command) == ["VLLM_ATTENTION_BACKEND=FLASHINFER", "X=a b", "vllm", "serve", "m"]


def test_variables_that_are_not_in_the_plan_are_named() -> None:
    given = (
        ("VLLM_ATTENTION_BACKEND", "FLASHINFER"),
        ("VLLM_USE_DEEP_GEMM", "0"),
        ("VLLM_LOGGING_LEVEL", "DEBUG"),
        ("MY_OWN", "1"),
    )
    read, moe, own = environment_warnings(given, Version("0.28.0"))

    assert read == "vLLM 0.28.0 does not read VLLM_ATTENTION_BACKEND."
    assert moe.startswith(
        "The effect of VLLM_USE_DEEP_GEMM is not modelled: which kernels compute the experts"
    )
    assert own.startswith("MY_OWN is not a variable of vLLM")
    assert environment_warnings(given[:1], Version("0.12.0")) == ()


def test_keys_of_a_config_inside_the_config_are_replaced_one_by_one() -> None:
    """vLLM 0.11.1, ModelConfig._apply_dict_overrides: configs are updated, objects are replaced."""
    config = {
        "num_nextn_predict_layers": 3,
        "rope_scaling": {"type": "yarn", "factor": 4.0},
        "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
        "text_config": {"hidden_size": 64, "rope_parameters": {"rope_theta": 1.0, "rope_type": "default"}},
    }
    merged = overridden(
        config,
        {
            "num_nextn_predict_layers": 1,
            "rope_scaling": {"factor": 8.0},
            "quantization_config": {"quant_method": "awq"},
            "text_config": {"rope_parameters": {"rope_theta": 2.0}},
        },
    )

    assert merged == {
        "num_nextn_predict_layers": 1,
        "rope_scaling": {"factor": 8.0},
        "quantization_config": {"quant_method": "awq"},
        "text_config": {"hidden_size": 64, "rope_parameters": {"rope_theta": 2.0}},
    }
    assert config["num_nextn_predict_layers"] == 3


def test_a_number_of_layers_that_is_overridden_needs_no_other_types() -> None:
    """vLLM 0.33.0, get_config: the config class checks the file, and overrides come after."""
    config = {"num_hidden_layers": 3, "layer_types": ["full_attention"] * 3}

    merged = overridden(config, {"num_hidden_layers": 1})

    assert merged == {"num_hidden_layers": 1, "layer_types": ["full_attention"]}
