"""Weights on the scoreboard."""

from typing import Any

from tests.accuracy.weights import (
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
