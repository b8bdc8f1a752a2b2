"""An output layer that a checkpoint brings, and its config calls tied or leaves open (vLLM issue 51063).

Mistral-Small-3.2-24B: 131,072 rows of 5,120 numbers of 2 bytes are 1.25 GiB. Its safetensors headers say
48,022,722,560 bytes, 44.72 GiB; without the output layer 46,680,545,280, 43.47 GiB. vLLM 0.19.0 logs
44.76 GiB for 3.1, of the same shape.
"""

from dataclasses import replace

import pytest
from packaging.version import Version

from service.architecture.model import ModelArchitecture
from service.memory.budget_estimator import estimate_budget
from service.memory.budget_inputs import BudgetInputs
from service.memory.budget_types import Basis, WeightsEstimate
from service.memory.interval import exact
from service.units import GIB
from tests.accuracy.oracle import bundled_architecture

MISTRAL = bundled_architecture("mistralai/Mistral-Small-3.2-24B-Instruct-2506")
STORED = 48_022_722_560
OUTPUT = 131_072 * 5_120 * 2
MEMORY = exact(80 * GIB, Basis.GIVEN, "80 GiB")
CLOSE = 0.06 * GIB
"""What is allocated beside the parameters: rotary tables, and segments."""


def weights(
    release: str,
    stored: int | None,
    quantization: str | None = None,
    architecture: ModelArchitecture = MISTRAL,
) -> WeightsEstimate:
    inputs = BudgetInputs(
        release=Version(release),
        total=MEMORY,
        compute_capability=(9, 0),
        max_model_len=8192,
        gpu_memory_utilization=0.9,
        max_num_batched_tokens=8192,
        max_num_seqs=256,
        quantization=quantization,
        checkpoint_bytes=stored,
    )
    return estimate_budget(architecture, inputs).weights


@pytest.mark.parametrize("release", ["0.19.0", "0.21.0", "0.29.0", "0.33.0"])
def test_a_release_that_keeps_the_output_loads_all_bytes(release: str) -> None:
    """0.21.0 and before take Mistral3 for untied; from 0.29.0 on the checkpoint decides."""
    found = weights(release, STORED)
    assert found.bytes == pytest.approx(STORED, abs=CLOSE)
    assert found.low > STORED - CLOSE


@pytest.mark.parametrize("release", ["0.22.0", "0.28.0"])
def test_one_that_discards_it_may_read_a_params_json(release: str) -> None:
    found = weights(release, STORED)
    assert found.bytes == pytest.approx(STORED, abs=CLOSE)
    assert found.low == pytest.approx(STORED - OUTPUT, abs=CLOSE)


@pytest.mark.parametrize("release", ["0.22.0", "0.29.0", "0.33.0"])
def test_a_checkpoint_without_an_output_is_tied(release: str) -> None:
    found = weights(release, STORED - OUTPUT)
    assert found.bytes == pytest.approx(STORED - OUTPUT, abs=CLOSE)
    assert found.high < STORED - OUTPUT + CLOSE


def test_a_checkpoint_of_unknown_size_may_be_either() -> None:
    found = weights("0.33.0", None)
    assert found.low == pytest.approx(STORED - OUTPUT, abs=CLOSE)
    assert found.high == pytest.approx(STORED, abs=CLOSE)


def test_weights_that_are_quantized_while_loading_keep_it_in_16_bits() -> None:
    """`--quantization fp8` leaves the output as it is: one layer of 1.25 GiB."""
    with_output = weights("0.33.0", STORED, "fp8").bytes
    assert with_output - weights("0.33.0", STORED - OUTPUT, "fp8").bytes == pytest.approx(OUTPUT, rel=0.01)


SECOND_EMBEDDING = bundled_architecture("google/gemma-4-E4B-it")
"""Gemma 4 E4B, tied by its config: 262,144 tokens of 2,560 numbers, and a second embedding for the layers."""
COPY = 262_144 * 2_560 * 2


def test_a_copy_stays_in_a_model_with_two_embeddings() -> None:
    """0.28.0 skips the checkpoint's copy; 0.29.0 loads it, and compares it only beside one embedding."""
    for release, kept in (("0.28.0", 0), ("0.29.0", COPY), ("0.33.0", COPY)):
        alone = weights(release, None, architecture=SECOND_EMBEDDING)
        stored = alone.parameter_bytes
        assert weights(release, stored, architecture=SECOND_EMBEDDING) == alone
        found = weights(release, stored + COPY, architecture=SECOND_EMBEDDING).bytes
        assert found == pytest.approx(alone.bytes + kept, abs=CLOSE)


def test_it_is_dropped_in_a_model_with_one_embedding() -> None:
    """Qwen3-4B: 151,936 tokens of 2,560 numbers, once in memory whether or not the checkpoint has a copy."""
    qwen = bundled_architecture("Qwen/Qwen3-4B")
    alone = weights("0.29.0", None, architecture=qwen)
    assert weights("0.29.0", alone.parameter_bytes + 151_936 * 2_560 * 2, architecture=qwen) == alone


def test_a_quantized_checkpoint_of_unknown_size_may_hold_a_copy() -> None:
    quantized = replace(
        SECOND_EMBEDDING, quantization=bundled_architecture("nvidia/Gemma-4-31B-IT-NVFP4").quantization
    )
    unknown = weights("0.29.0", None, architecture=quantized)
    known = weights("0.29.0", unknown.parameter_bytes, architecture=quantized)
    assert unknown.parameter_bytes == known.parameter_bytes
    assert unknown.high == pytest.approx(known.bytes + COPY, abs=2 * CLOSE)
