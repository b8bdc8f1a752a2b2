"""From a start to the memory that it leaves for the cache."""

from service.advisor.request import Model
from service.advisor.start import Start
from service.engines.flags import ServeFlags
from service.gpus.gpu_type import GpuType
from service.memory.budget import MemoryBudget
from service.memory.calibration import NOTHING_LEARNED, Calibration, Circumstances
from service.memory.device import device_total
from service.memory.estimation import BudgetInputs, estimate_budget


def budget_of(
    model: Model, start: Start, flags: ServeFlags, gpu: GpuType, calibration: Calibration = NOTHING_LEARNED
) -> MemoryBudget:
    """Return the memory budget of the rank with the least room, by what is computed and what was measured."""
    budget = estimate_budget(start.architecture, inputs_of(model, start, flags, gpu))
    return calibration.applied(budget, circumstances_of(model, start, flags, gpu)) if calibration else budget


def circumstances_of(model: Model, start: Start, flags: ServeFlags, gpu: GpuType) -> Circumstances:
    """Return what decides which measurements tell something about a start."""
    inputs = inputs_of(model, start, flags, gpu)
    return Circumstances(start.architecture, inputs, gpu.name, start.stored_dtype, start.layout.block_size)


def inputs_of(model: Model, start: Start, flags: ServeFlags, gpu: GpuType) -> BudgetInputs:
    """Return what the budget of a start depends on."""
    serving = start.serving
    capability = serving.compute_capability
    return BudgetInputs(
        release=serving.release,
        total=device_total(gpu),
        compute_capability=(capability.major, capability.minor),
        gpu_memory_utilization=serving.gpu_memory_utilization,
        max_num_batched_tokens=serving.max_num_batched_tokens,
        max_num_seqs=serving.max_num_seqs,
        tensor_parallel_size=serving.tensor_parallel_size,
        pipeline_parallel_size=serving.pipeline_parallel_size,
        data_parallel_size=flags.data_parallel_size,
        enable_expert_parallel=serving.enable_expert_parallel,
        enforce_eager=serving.enforce_eager,
        unified_memory=gpu.unified_memory,
        language_model_only=flags.language_model_only,
        kv_cache_memory_bytes=flags.kv_cache_memory_bytes,
        dtype=serving.dtype,
        quantization=flags.quantization,
        checkpoint_bytes=model.checkpoint_bytes,
    )
