"""What kernels add to weights in 8-bit floats, worked out by hand."""

import pytest
from packaging.version import Version

from service.memory.constants import constants_at
from service.memory.parallelism import Parallelism
from service.memory.weights.resident.converted_fp8 import converted_fp8
from tests.memory.recorded import altered, bundled

IN_BLOCKS = bundled("Qwen/Qwen3-30B-A3B-FP8")
EXPERT = (2 * 768 * 16 + 2048 * 6) * 2 - (2 * 6 * 16 + 16 * 6) * 4
"""A 16-bit scale for each row and 128 inputs, instead of a 32-bit one for each square of 128."""
ATTENTION = (5120 * 16 + 2048 * 32) * 2 - (40 * 16 + 16 * 32) * 4
NANO = "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16"
WHOLE = {"quant_method": "modelopt", "quant_algo": "FP8", "exclude_modules": ["lm_head"]}
EXPERT_LAYERS = 23
WIDER = (1920 - 1856) * 2 * 2688 * 128 * EXPERT_LAYERS
"""Rows and columns up to the next multiple of 128 in both matrices of 128 experts."""


def added(model: object, capability: tuple[int, int], release: str, layers: int) -> int:
    version = Version(release)
    deployment = Parallelism(compute_capability=capability)
    resident = constants_at(version).resident
    return converted_fp8(model, deployment, version, range(layers), resident).bytes  # type: ignore[arg-type]


@pytest.mark.parametrize("capability", [(7, 5), (8, 0), (8, 6)])
@pytest.mark.parametrize("release", ["0.10.2", "0.33.0"])
def test_marlin_reads_a_scale_for_every_row(capability: tuple[int, int], release: str) -> None:
    assert added(IN_BLOCKS, capability, release, 48) == 48 * (128 * EXPERT + ATTENTION)


@pytest.mark.parametrize("capability", [(8, 9), (9, 0), (12, 0)])
def test_gpus_with_such_units_keep_the_scales_of_blocks(capability: tuple[int, int]) -> None:
    assert added(IN_BLOCKS, capability, "0.19.0", 48) == 0


@pytest.mark.parametrize(
    ("capability", "release", "expected"),
    [((12, 1), "0.22.1", WIDER), ((9, 0), "0.19.0", WIDER), ((8, 9), "0.22.1", 0), ((9, 0), "0.15.1", 0)],
)
def test_experts_without_gates_are_as_wide_as_flashinfer_asks(
    capability: tuple[int, int], release: str, expected: int
) -> None:
    assert added(altered(NANO, quantization=WHOLE), capability, release, 52) == expected


def test_gated_experts_and_unquantized_ones_stay() -> None:
    model = altered("Qwen/Qwen3-30B-A3B-Instruct-2507", quantization=WHOLE)

    assert added(model, (9, 0), "0.22.1", 48) == 0
    assert added(bundled(NANO), (9, 0), "0.22.1", 52) == 0
