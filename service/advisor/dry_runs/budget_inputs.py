"""The inputs of a start's memory budget."""

from typing import Final

from service.advisor.candidates.engine_start import Start
from service.advisor.request.plan_request import Model, PlanRequest
from service.architecture.model import ModelArchitecture
from service.backends.layer_cache_dtype import layer_cache_dtype
from service.engine_config import offload_checks
from service.engine_config.adapter_checks import DEFAULT_RANK
from service.engine_config.cache_dtype import is_turboquant
from service.engine_config.engine_config import EngineConfig
from service.engine_config.environment import estimates_graphs, expands_segments
from service.engine_config.expert_checks import spare_experts
from service.engine_config.offload_checks import fetches
from service.engines.flags import ServeFlags
from service.gpus.gpu_type import GpuType
from service.memory.budget_inputs import BudgetInputs
from service.memory.budget_types import Basis, Estimate, MemoryBudget
from service.memory.calibration import Circumstances
from service.memory.device import device_total
from service.memory.host import HostFlags
from service.memory.media_choices import MediaChoices
from service.memory.offloading import Offload
from service.memory.parallelism import ELEMENT_BYTES
from service.memory.profile_run import reads_length
from service.memory.weights.resident.adapters import AdapterSlots
from service.memory.weights.schemes.online_quantization import ONLINE
from service.units import GIB

NO_TOTAL: Final = Estimate(0, 0, 0, Basis.ASSUMED, "")
"""Memory of a device, where what a start takes of it is calculated for any device."""


def calibrated(
    request: PlanRequest, budget: MemoryBudget, start: Start, flags: ServeFlags, gpu: GpuType
) -> MemoryBudget:
    """Return the budget with its terms corrected by measurements of similar starts."""
    if not request.calibration:
        return budget
    return request.calibration.applied(budget, circumstances_of(request, start, flags, gpu))


def circumstances_of(request: PlanRequest, start: Start, flags: ServeFlags, gpu: GpuType) -> Circumstances:
    """Return the circumstances of a start, by which similar measurements are found."""
    inputs = budget_inputs(request.model, start, flags, gpu, request.free_memory_bytes)
    return Circumstances(start.architecture, inputs, gpu.name, start.stored_dtype, start.layout.block_size)


def budget_inputs(
    model: Model, start: Start, flags: ServeFlags, gpu: GpuType, free_memory_bytes: int | None
) -> BudgetInputs:
    """Return what the budget of a start depends on."""
    length = start.engine_config.max_model_len
    return _inputs(model, start, flags, gpu, free_memory_bytes, device_total(gpu), length)


def shared_inputs(
    model: Model, start: Start, flags: ServeFlags, gpu: GpuType, free_memory_bytes: int | None
) -> BudgetInputs:
    """Return the same for a device without memory, and without a length that nothing depends on.

    Starts that are equal in this take the same of any device.
    """
    length = start.engine_config.max_model_len if reads_length(start.architecture) else None
    return _inputs(model, start, flags, gpu, free_memory_bytes, NO_TOTAL, length)


def _inputs(  # noqa: PLR0913, PLR0917 - what both have
    model: Model,
    start: Start,
    flags: ServeFlags,
    gpu: GpuType,
    free_memory_bytes: int | None,
    total: Estimate,
    max_model_len: int | None,
) -> BudgetInputs:
    engine_config = start.engine_config
    capability = engine_config.compute_capability
    return BudgetInputs(
        release=engine_config.release,
        total=total,
        compute_capability=(capability.major, capability.minor),
        gpu_memory_utilization=engine_config.gpu_memory_utilization,
        max_num_batched_tokens=engine_config.max_num_batched_tokens,
        max_num_seqs=engine_config.max_num_seqs,
        max_model_len=max_model_len,
        tensor_parallel_size=engine_config.tensor_parallel_size,
        pipeline_parallel_size=engine_config.pipeline_parallel_size,
        data_parallel_size=flags.data_parallel_size,
        enable_expert_parallel=engine_config.enable_expert_parallel,
        enforce_eager=engine_config.enforce_eager,
        max_cudagraph_capture_size=engine_config.graph_sizes.largest,
        graph_mode=engine_config.graph_mode,
        graph_sizes=engine_config.graph_sizes,
        expands_segments=expands_segments(flags),
        reserves_graphs=estimates_graphs(flags, engine_config.release),
        speculative_tokens=engine_config.speculative_tokens,
        v2_model_runner=engine_config.v2_model_runner,
        unified_memory=gpu.unified_memory,
        nvlink=engine_config.tensor_parallel_size <= gpu.joined_gpus,
        language_model_only=flags.language_model_only,
        media=MediaChoices.of(flags),
        whole_encoders=engine_config.whole_encoders,
        free_memory_bytes=free_memory_bytes,
        kv_cache_memory_bytes=flags.kv_cache_memory_bytes,
        dtype=engine_config.dtype,
        quantization=_online_method(flags, engine_config),
        turboquant_layers=_turboquant_layers(start.architecture, engine_config),
        checkpoint_bytes=model.checkpoint_bytes,
        offload=_offload(flags) if engine_config.offloads_weights else None,
        adapters=_adapters(flags, engine_config),
        balances_experts=flags.enable_eplb,
        spare_experts=spare_experts(flags),
        sleeps=flags.enable_sleep_mode,
        all2all_backend=flags.all2all_backend,
        expert_kernel=engine_config.expert_kernel,
        host=_host(flags, start.architecture, engine_config),
        reserved_bytes=int(flags.mm_ipc_gpu_memory_gb * GIB),
    )


def _host(flags: ServeFlags, architecture: ModelArchitecture, engine_config: EngineConfig) -> HostFlags:
    rules = engine_config.rules.groups
    media = architecture.multimodal and architecture.encoder_tokens is None
    return HostFlags.of(
        flags,
        offloads=offload_checks.offloads_blocks(flags, rules),
        sizes_blocks=flags.kv_offloading_backend != "lmcache" or rules.offloading_sizes_lmcache,
        media=media,
    )


def _adapters(flags: ServeFlags, engine_config: EngineConfig) -> AdapterSlots | None:
    if not flags.enable_lora:
        return None
    extra = engine_config.rules.adapters.extra_vocabulary
    named = None if flags.lora_dtype in (None, "auto") else flags.lora_dtype
    return AdapterSlots(
        slots=flags.max_loras or 1,
        rank=flags.max_lora_rank or DEFAULT_RANK,
        element_bytes=ELEMENT_BYTES.get(named or engine_config.dtype, 2),
        extra_vocabulary=(flags.lora_extra_vocab_size or extra[0]) if extra else 0,
        fully_sharded=flags.fully_sharded_loras,
        targets=frozenset(flags.lora_target_modules),
    )


def _online_method(flags: ServeFlags, engine_config: EngineConfig) -> str | None:
    """Return the method of ``--quantization``; ``None`` where the release only reads checkpoints by it."""
    method, rules = flags.quantization, engine_config.rules.checkpoints
    return None if method in ONLINE and method not in rules.online_quantization else method


def _offload(flags: ServeFlags) -> Offload | None:
    if fetches(flags):
        return Offload(
            group_size=flags.offload_group_size,
            moved_in_group=flags.offload_num_in_group,
            fetched_ahead=flags.offload_prefetch_step,
            names=frozenset(flags.offload_params),
        )
    if not flags.cpu_offload_gb:
        return None
    return Offload(max_bytes=int(flags.cpu_offload_gb * GIB), names=frozenset(flags.cpu_offload_params))


def _turboquant_layers(architecture: ModelArchitecture, engine_config: EngineConfig) -> frozenset[int]:
    if not is_turboquant(engine_config.kv_cache_dtype):
        return frozenset()
    return frozenset(
        index
        for index, mixer in architecture.attention_layers
        if is_turboquant(layer_cache_dtype(index, mixer, engine_config))
    )
