"""MIG slices as GPU types."""

import pytest

from service.gpus.catalog import AmbiguousGpu, UnknownGpu, gpu_catalog
from service.gpus.gpu_type import GpuType, MemoryBasis
from service.units import GIB

CATALOG = gpu_catalog()


# `nvidia-smi mig -lgip` of each GPU: GiB and SMs.
@pytest.mark.parametrize(
    ("name", "slice_id", "gib", "sms"),
    [
        ("a100-sxm-80gb-mig-3g.40gb", "a100-sxm-80gb-mig-3g.40gb", 39.25, 42),
        ("NVIDIA A100-SXM4-80GB MIG 3g.40gb", "a100-sxm-80gb-mig-3g.40gb", 39.25, 42),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "a100-sxm-40gb-mig-1g.5gb", 4.75, 14),
        ("NVIDIA H100 80GB HBM3 MIG 2g.20gb", "h100-sxm-80gb-mig-2g.20gb", 19.62, 32),
        ("H100 MIG 3g.40gb", "h100-sxm-80gb-mig-3g.40gb", 39.50, 60),
        ("h100 1g.20gb", "h100-sxm-80gb-mig-1g.20gb", 19.62, 26),
        ("NVIDIA H200 MIG 1g.18gb", "h200-sxm-141gb-mig-1g.18gb", 16.00, 16),
    ],
)
def test_a_slice_has_the_drivers_figures(name: str, slice_id: str, gib: float, sms: int) -> None:
    found = CATALOG.named(name)
    assert (found.id, found.sm_count, found.is_slice) == (slice_id, sms, True)
    assert found.memory_bytes / GIB == pytest.approx(gib, abs=0.005)


def test_a_slice_that_cuda_was_seen_on_has_its_bytes() -> None:
    # totalMemory of TARGET_INFO_GPU in a profile that Nsight Systems recorded on "NVIDIA H200 MIG 3g.71gb".
    found = CATALOG.named("NVIDIA H200 MIG 3g.71gb")
    assert (found.memory_low_bytes, found.memory_bytes, found.memory_high_bytes) == (74_893_492_224,) * 3
    # Its twin with more SMs has the same half of the memory, which only the share of others tells.
    twin = CATALOG.named("h200 4g.71gb")
    assert twin.memory_low_bytes <= found.memory_bytes <= twin.memory_high_bytes


@pytest.mark.parametrize("part", CATALOG.slices, ids=lambda part: part.id)
def test_a_slice_has_no_more_than_its_share(part: GpuType) -> None:
    whole = CATALOG.find(part.id.partition("-mig-")[0])
    assert 0 < part.memory_low_bytes <= part.memory_bytes <= part.memory_high_bytes
    # The driver counts its own reserve, which CUDA does not see, to the instance of a whole GPU.
    assert part.memory_high_bytes <= (whole.driver_total_bytes or whole.memory_bytes)
    assert (part.compute_capability, part.nvlink) == (whole.compute_capability, False)
    assert part.sm_count is None or part.sm_count <= (whole.sm_count or 0)
    assert part.memory_basis in {MemoryBasis.DRIVER, MemoryBasis.MARKETING}
    assert CATALOG.named(part.id) == CATALOG.named(part.name) == part


def test_slices_are_not_listed_among_the_types() -> None:
    assert not [gpu for gpu in CATALOG if gpu.is_slice]


def test_a_profile_of_several_gpus_is_ambiguous_and_one_of_none_is_unknown() -> None:
    with pytest.raises(AmbiguousGpu) as caught:
        CATALOG.named("A100 3g.40gb")
    assert set(caught.value.nearest) == {"a100-sxm-80gb-mig-3g.40gb", "a100-pcie-80gb-mig-3g.40gb"}
    for name in ("a100-sxm-40gb-mig-1g.40gb", "l4 1g.5gb", "h100 mig 9g.90gb"):
        with pytest.raises(UnknownGpu):
            CATALOG.named(name)
