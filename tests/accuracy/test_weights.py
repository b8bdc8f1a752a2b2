"""Weights on the scoreboard."""

from typing import Any

from tests.accuracy.weights import (
    NO_CHECKPOINT,
    WITHIN,
    misses,
    table,
    weigh,
)

ROW: dict[str, Any] = {
    "id": "f9cfc78a3598",
    "config": "HuggingFaceTB/SmolLM-1.7B-Instruct",
    "engine_version": "0.19.0",
    "gpu": {"compute_capability": "9.0"},
    "serve": {"tensor_parallel_size": 1, "kv_cache_dtype": "auto", "max_model_len": 2048},
    "expect": {
        "parameter_bytes_per_pp_rank": [3_422_752_768],
        "weights_bytes_per_pp_rank": [3_423_015_296],
    },
}
"""An answer of 0.19.0."""
WITHOUT_TENSORS: dict[str, Any] = {
    "config": "TheBloke/Llama-2-13B-chat-GPTQ",
    "engine_version": "0.30.0",
    "serve": {"tensor_parallel_size": 1, "kv_cache_dtype": "auto", "max_model_len": 4096},
    "expect": {
        "parameter_bytes_per_pp_rank": [26_031_728_640],
        "weights_bytes_per_pp_rank": [26_032_777_856],
    },
}
WITH_AN_UNTOLD_DRAFT: dict[str, Any] = {
    "config": "Qwen/Qwen3-Next-80B-A3B-Instruct",
    "engine_version": "0.32.0",
    "serve": {"tensor_parallel_size": 1, "kv_cache_dtype": "auto", "max_model_len": 32_768},
    "expect": {
        "layer_specs": [[{"kind": "mamba", "layers": 36}, {"kind": "full_attention", "layers": 13}]],
        "parameter_bytes_per_pp_rank": [162_649_727_744],
        "weights_bytes_per_pp_rank": [162_683_282_384],
    },
}


def test_a_recorded_row_is_met_to_the_byte() -> None:
    weighed = weigh(ROW, None)

    assert weighed is not None
    assert weighed.parameters == 0
    # Beside the table of 2,048 rows of 64 stand four scales of the cache for each of 24 layers.
    assert weighed.allocated == (3_423_015_296 - 24 * 4 * 4) / 3_423_015_296 - 1


def test_a_row_that_is_off_is_named() -> None:
    expected = {"parameter_bytes_per_pp_rank": [3_000_000_000], "weights_bytes_per_pp_rank": [3_000_000_000]}
    weighed = weigh(ROW | {"expect": expected}, None)

    assert weighed is not None
    assert weighed.parameters > WITHIN
    assert misses([weighed]) == {ROW["config"]: 1}
    assert table([weighed]).row_count == 2


def test_a_row_without_weights_is_passed_over() -> None:
    assert weigh(ROW | {"expect": {"starts": False}}, None) is None


def test_a_row_asked_without_tensors_is_compared_with_an_unquantized_model() -> None:
    """0.30.0 takes no layer for quantized where it finds no tensors: two bytes for each of 13.0 billion."""
    weighed = weigh(ROW | WITHOUT_TENSORS, None)

    assert weighed is not None
    assert weighed.parameters == 0
    assert weighed.cause == NO_CHECKPOINT


def test_a_row_whose_caches_show_a_draft_is_compared_with_one() -> None:
    """The row has 13 full attention layers and 36 others, the model 12 and 36."""
    weighed = weigh(ROW | WITH_AN_UNTOLD_DRAFT, None)

    assert weighed is not None
    assert weighed.parameters == 0
    assert "its flags do not mention" in (weighed.cause or "")
    assert misses([weighed]) == {}
