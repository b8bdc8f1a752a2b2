"""Parameter bytes against what real releases allocate on the meta device, and against the Hub's counts."""

from collections.abc import Iterator
from typing import Any

import pytest
from packaging.version import Version

from service.architecture.config import InvalidConfig
from service.architecture.reading import UnknownArchitecture
from service.memory.parallelism import Parallelism
from service.memory.weights.counts.parameters import parameter_bytes, parameter_bytes_per_stage
from tests.memory.recorded import (
    SNAPSHOT,
    altered,
    bundled,
    capability,
    records,
)

NEWEST = Version("0.32.0")


def label(row: dict[str, Any]) -> str:
    parallel = f"tp{row['tensor_parallel_size']}pp{row.get('pipeline_parallel_size', 1)}"
    return f"{row.get('model') or row['name']}-{row['release']}-{parallel}-{row['compute_capability']}"


@pytest.mark.parametrize("row", records("parameters.json"), ids=label)
def test_bytes_are_those_that_the_release_allocates(row: dict[str, Any]) -> None:
    deployment = Parallelism(
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
    deployment = Parallelism(
        tensor_parallel_size=row["tensor_parallel_size"],
        compute_capability=capability(row["compute_capability"]),
    )

    assert [parameter_bytes(architecture, deployment, Version(row["release"]))] == row["bytes"]


OUTPUT_STORED_TWICE = {"Qwen/Qwen3-1.7B", "google/medgemma-27b-it", "tiiuae/falcon-180B-chat"}
"""Tied models whose checkpoint stores the output all the same."""
CAUSAL_MASKS = {"openai-community/gpt2": 12 * 1024 * 1024}
"""Elements of the masks that a checkpoint stores beside its weights, one square per layer."""

CLIP_LAYER = 4 * (1024 * 1024 + 1024) + 2 * 1024 * 4096 + 4096 + 1024 + 4 * 1024
ONLY_IN_ENGINE = {"microsoft/Phi-3.5-vision-instruct": 32_064 * 3072 - CLIP_LAYER - 2 * 1024}
"""Elements of a second table of tokens, less CLIP's last layer and norm, which nothing reads."""

IN_32_BITS = {"MiniMaxAI/MiniMax-M1-80k": 200_064 * 6144 + 80 * 32 * 6144}
"""Elements of the output and the routers that the engine stores in twice the checkpoint's width."""


ROUND = 1_000_000


def counted() -> Iterator[tuple[str, int]]:
    for model in SNAPSHOT.ids():
        fetched = SNAPSHOT.get(model)
        assert fetched is not None
        try:
            architecture = bundled(model)
        except (UnknownArchitecture, InvalidConfig):
            continue
        total = fetched.total_parameters or 0
        quantized = architecture.quantization is not None or fetched.quantization_config is not None
        # A round number is a name ("120B"), not a count.
        if total % ROUND and not quantized and architecture.media.towers_known:
            yield model, total - CAUSAL_MASKS.get(model, 0)


def has_draft_layers(model: str) -> bool:
    fetched = SNAPSHOT.get(model)
    return fetched is not None and bool(fetched.config.get("num_nextn_predict_layers"))


COUNTED = list(counted())


def test_the_hub_counts_many_models() -> None:
    assert len(COUNTED) > 40


@pytest.mark.parametrize(("model", "parameters"), COUNTED, ids=[model for model, _ in COUNTED])
def test_an_unquantized_model_has_the_parameters_that_the_hub_counts(model: str, parameters: int) -> None:
    size = parameter_bytes(bundled(model), Parallelism(), Version("0.20.2"))

    if model in OUTPUT_STORED_TWICE:
        size += bundled(model).vocab_size * bundled(model).hidden_size * 2
    size -= 2 * (IN_32_BITS.get(model, 0) + ONLY_IN_ENGINE.get(model, 0))
    # Draft heads are in the checkpoint and not in the engine; keys that are values are built twice.
    below = 0.03 if bundled(model).is_hybrid or has_draft_layers(model) else 1e-3
    above = 4e-3 if "gemma-4" in model else 1e-3
    assert (1 - below) * parameters <= size / 2 <= (1 + above) * parameters


def test_a_hand_worked_example() -> None:
    """Llama 3.2 1B: 16 layers of 2048, 32 heads of 64 with 8 for keys, 8192 wide, one tied embedding."""
    attention = 2048 * (2048 + 2 * 512) + 2048 * 2048
    network = 3 * 2048 * 8192
    expected = 128256 * 2048 + 16 * (attention + network + 2 * 2048) + 2048

    assert parameter_bytes(bundled("meta-llama/Llama-3.2-1B-Instruct"), Parallelism(), NEWEST) == 2 * expected


def test_leaving_the_towers_out_leaves_the_language_model() -> None:
    whole = parameter_bytes(bundled("Qwen/Qwen3-VL-8B-Instruct"), Parallelism(), NEWEST)
    text = parameter_bytes(
        bundled("Qwen/Qwen3-VL-8B-Instruct"), Parallelism(language_model_only=True), NEWEST
    )

    # The decoder of Qwen3-VL is that of Qwen3 of the same size.
    assert text == parameter_bytes(bundled("Qwen/Qwen3-8B"), Parallelism(), NEWEST)
    assert whole > text
