"""From a start to the memory that it leaves for the cache."""

from math import ceil

from service.advisor.start import Start
from service.architecture.model import ModelArchitecture
from service.gpus.gpu_type import GpuType
from service.memory.budget import Basis, Estimate, MemoryBudget, WeightsEstimate
from service.memory.weights import Deployment, parameter_bytes
from service.units import GIB


def budget_of(
    architecture: ModelArchitecture,
    start: Start,
    gpu: GpuType,
    *,
    given: int | None,
    checkpoint_bytes: int | None,
) -> MemoryBudget:

    serving = start.serving
    weights = parameter_bytes(architecture, Deployment(serving.tensor_parallel_size), serving.release)
    requested = ceil(gpu.memory_bytes * serving.gpu_memory_utilization)
    left = requested - weights - 2 * GIB
    zero = Estimate(0, 0, 0, Basis.ASSUMED, "provisional")
    return MemoryBudget(
        total=Estimate(
            gpu.memory_bytes, gpu.memory_low_bytes, gpu.memory_high_bytes, Basis.MEASURED, gpu.source
        ),
        requested=Estimate(requested, requested, requested, Basis.COMPUTED, "provisional"),
        weights=WeightsEstimate(weights, weights, weights, Basis.COMPUTED, "provisional", weights),
        activation=zero,
        non_torch=zero,
        cuda_graphs=zero,
        available_kv=Estimate(given, given, given, Basis.GIVEN, "--kv-cache-memory-bytes")
        if given is not None
        else Estimate(left, left - GIB, left + GIB, Basis.ASSUMED, "provisional"),
    )
