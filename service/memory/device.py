"""The memory of a GPU type, as a term of the budget."""

from typing import Final

from service.gpus.gpu_type import GpuType, MemoryBasis
from service.memory.budget import Basis, Estimate

BASES: Final = {
    MemoryBasis.GIVEN: Basis.GIVEN,
    MemoryBasis.PRINTED: Basis.MEASURED,
    MemoryBasis.DRIVER: Basis.CALIBRATED,
    MemoryBasis.MARKETING: Basis.ASSUMED,
}


def device_total(gpu: GpuType) -> Estimate:
    """Return what CUDA reports as the total of such a GPU."""
    return Estimate(
        gpu.memory_bytes,
        gpu.memory_low_bytes,
        gpu.memory_high_bytes,
        BASES[gpu.memory_basis],
        gpu.source,
    )
