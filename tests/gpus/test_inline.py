import pytest

from service.gpus.capability import ComputeCapability
from service.gpus.catalog import find_gpu
from service.gpus.gpu_type import InvalidGpu, MemoryBasis, inline_gpu
from service.units import GIB


def test_a_callers_3090_with_an_older_driver_keeps_its_bytes() -> None:
    gpu = inline_gpu("my-gpu", 25_425_608_704, "8.6")
    assert (gpu.memory_low_bytes, gpu.memory_bytes, gpu.memory_high_bytes) == (25_425_608_704,) * 3
    assert gpu.compute_capability == ComputeCapability(8, 6)
    assert gpu.memory_basis is MemoryBasis.GIVEN
    assert gpu.modelled
    assert gpu == inline_gpu("my-gpu", 25_425_608_704, ComputeCapability(8, 6))
    # An older driver left CUDA more than today's does.
    assert gpu.memory_bytes > find_gpu("rtx-3090-24gb").memory_high_bytes


@pytest.mark.parametrize(
    ("given", "units"),
    [
        (48, "48GB, or 48GiB"),  # an RTX A6000, as it is sold
        (49_140, "49140MiB"),  # as nvidia-smi prints it
        (4096, "4096GB, or 4096GiB"),
        (0, None),
        (5_000_000, None),
    ],
)
def test_a_number_without_its_unit_is_proposed_with_one(given: int, units: str | None) -> None:
    with pytest.raises(InvalidGpu) as caught:
        inline_gpu("mine", given, "8.6")
    assert ("with its unit" in str(caught.value)) is (units is not None)
    assert str(caught.value).endswith(units or ")")


@pytest.mark.parametrize(
    ("field", "arguments"),
    [
        ("name", {"name": " "}),
        ("memory_bytes", {"memory_bytes": 24}),
        ("memory_bytes", {"memory_bytes": -1}),
        ("memory_bytes", {"memory_bytes": 24 * GIB * 1024}),
        ("compute_capability", {"compute_capability": "sm_86"}),
        ("bandwidth_gb_s", {"bandwidth_gb_s": 0.0}),
        ("bandwidth_gb_s", {"bandwidth_gb_s": float("nan")}),
        ("sm_count", {"sm_count": 0}),
    ],
)
def test_a_fault_names_its_field(field: str, arguments: dict[str, object]) -> None:
    good: dict[str, object] = {"name": "my-gpu", "memory_bytes": 24 * GIB, "compute_capability": "8.6"}
    with pytest.raises(InvalidGpu, match=f"^{field}: ") as caught:
        inline_gpu(**(good | arguments))  # type: ignore[arg-type]  # the faults are the point
    assert caught.value.field == field
