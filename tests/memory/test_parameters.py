"""Parameter bytes against what real releases allocate on the meta device, and against the Hub's counts."""

from typing import Any

import pytest
from packaging.version import Version

from service.memory.deployment import Deployment
from service.memory.weights import parameter_bytes, parameter_bytes_per_stage
from tests.memory.recorded import SNAPSHOT, altered, bundled, capability, records

NEWEST = Version("0.32.0")


def label(row: dict[str, Any]) -> str:
    parallel = f"tp{row['tensor_parallel_size']}pp{row.get('pipeline_parallel_size', 1)}"
    return f"{row.get('model') or row['name']}-{row['release']}-{parallel}-{row['compute_capability']}"


@pytest.mark.parametrize("row", records("parameters.json"), ids=label)
def test_bytes_are_those_that_the_release_allocates(row: dict[str, Any]) -> None:
    deployment = Deployment(
        tensor_parallel_size=row["tensor_parallel_size"],
        pipeline_parallel_size=row["pipeline_parallel_size"],
        enable_expert_parallel=row["enable_expert_parallel"],
        compute_capability=capability(row["compute_capability"]),
        dtype=row["dtype"],
    )

    stages = parameter_bytes_per_stage(bundled(row["model"]), deployment, Version(row["release"]))

    assert stages == pytest.approx(row["bytes"], rel=1e-3)


@pytest.mark.parametrize("row", records("variants.json"), ids=label)
def test_common_quantizations_of_known_models_are_exact(row: dict[str, Any]) -> None:
    architecture = altered(row["base"], row["overrides"], row["quantization_config"])
    deployment = Deployment(
        tensor_parallel_size=row["tensor_parallel_size"],
        compute_capability=capability(row["compute_capability"]),
    )

    assert [parameter_bytes(architecture, deployment, Version(row["release"]))] == row["bytes"]


@pytest.mark.parametrize(
    "model",
    [
        "meta-llama/Llama-3.1-8B",
        "mistralai/Mixtral-8x7B-Instruct-v0.1",
        "Qwen/Qwen2.5-7B-Instruct",
        "Qwen/Qwen3-30B-A3B-Instruct-2507",
        "google/gemma-3-1b-it",
    ],
)
def test_an_unquantized_model_has_the_parameters_that_the_hub_counts(model: str) -> None:
    fetched = SNAPSHOT.get(model)
    assert fetched is not None
    assert fetched.total_parameters is not None

    size = parameter_bytes(bundled(model), Deployment(), NEWEST)

    # The engine pads the vocabulary to a multiple of 64, which the checkpoint does not.
    assert size / 2 == pytest.approx(fetched.total_parameters, rel=1e-3)


def test_a_hand_worked_example() -> None:
    """Llama 3.2 1B: 16 layers of 2048, 32 heads of 64 with 8 for keys, 8192 wide, one tied embedding."""
    attention = 2048 * (2048 + 2 * 512) + 2048 * 2048
    network = 3 * 2048 * 8192
    expected = 128256 * 2048 + 16 * (attention + network + 2 * 2048) + 2048

    assert parameter_bytes(bundled("meta-llama/Llama-3.2-1B-Instruct"), Deployment(), NEWEST) == 2 * expected


def test_leaving_the_towers_out_leaves_the_language_model() -> None:
    whole = parameter_bytes(bundled("Qwen/Qwen3-VL-8B-Instruct"), Deployment(), NEWEST)
    text = parameter_bytes(bundled("Qwen/Qwen3-VL-8B-Instruct"), Deployment(language_model_only=True), NEWEST)

    # The decoder of Qwen3-VL is that of Qwen3 of the same size.
    assert text == parameter_bytes(bundled("Qwen/Qwen3-8B"), Deployment(), NEWEST)
    assert whole > text
