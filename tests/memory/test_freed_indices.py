"""Indices of the activation order that loading frees, worked out by hand."""

from packaging.version import Version

from service.memory.parallelism import Parallelism
from service.memory.weights.resident.freed_indices import freed_indices
from tests.memory.recorded import altered, bundled

MODEL = "Qwen/Qwen3-30B-A3B-Instruct-2507"
GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 128, "sym": True, "desc_act": False}
LAYER = 128 * 2 * (2048 + 768) * 4
"""Two arrays of 32 bits for the inputs of each of both projections, of 128 experts."""


def test_experts_without_an_activation_order_keep_no_indices() -> None:
    architecture, alone = altered(MODEL, quantization=GPTQ), Parallelism()

    assert freed_indices(architecture, alone, Version("0.11.0"), range(48)).bytes == -48 * LAYER
    assert freed_indices(architecture, alone, Version("0.19.0"), range(24, 48)).bytes == -24 * LAYER


def test_releases_that_build_no_indices_free_none() -> None:
    architecture = altered(MODEL, quantization=GPTQ)

    assert freed_indices(architecture, Parallelism(), Version("0.30.0"), range(48)).bytes == 0


def test_indices_that_the_checkpoint_uses_are_kept() -> None:
    ordered = altered(MODEL, quantization=GPTQ | {"desc_act": True})

    assert freed_indices(ordered, Parallelism(), Version("0.11.0"), range(48)).bytes == 0


def test_unquantized_experts_have_no_indices() -> None:
    assert freed_indices(bundled(MODEL), Parallelism(), Version("0.11.0"), range(48)).bytes == 0
