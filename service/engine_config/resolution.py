"""Resolves a caller's flags into a start with every default filled in, or the engine's refusal."""

from dataclasses import dataclass, field
from typing import assert_never

from service.architecture.layers.recurrence import state_kind
from service.architecture.model import ModelArchitecture
from service.architecture.quantization import Quantization
from service.engine_config import (
    adapter_checks,
    cache_dtype,
    checkpoint_checks,
    environment,
    expert_checks,
    expert_kernels,
    indexer_keys,
    model_dtype,
    offload_checks,
    parallel_checks,
    speculation,
    state_caching,
    weight_quantization,
    written_fields,
)
from service.engine_config.draft_checks import check_draft_experts
from service.engine_config.engine_config import EngineConfig
from service.engine_config.graph_modes import graph_sizes, resolve_graph_mode
from service.engine_config.hybrid_manager import keeps_several_kinds
from service.engine_config.model_runner import check_v2_model_runner, runs_on_v2_model_runner
from service.engine_config.request_limits import (
    RequestLimits,
    batch_defaults,
    resolve_length,
    sees_media_both_ways,
)
from service.engine_config.runner import pooling_flags
from service.engine_config.scheduling_checks import check_partial_prefills
from service.engine_config.sparse_weights import check_sparse_weights
from service.engine_config.speculation import Speculation
from service.engines.cases import BatchDefaults
from service.engines.engine_rules import EngineRules
from service.engines.flags import ServeFlags
from service.engines.model_classes import check_model_class
from service.engines.refusal import EngineRefusal, Stage
from service.engines.rules.batches import AsyncScheduling, BatchRules
from service.engines.rules.capacity import CapacityRules
from service.engines.rules.kernels import KernelRules
from service.engines.rules.parallelism import ParallelismRules
from service.engines.rules.speculation import SpeculationRules
from service.engines.rules.states import StateRules
from service.gpus.capability import ComputeCapability
from service.gpus.gpu_type import GpuType


@dataclass(frozen=True, slots=True)
class DeviceTerms:
    """What a configuration takes from a GPU type: types with equal terms are configured alike."""

    dtype: str
    """Type that the model runs in there."""
    quantization: Quantization | None
    """How weights are quantized once they are loaded."""
    unloadable: EngineRefusal | None
    """Why the checkpoint cannot be loaded there, if so."""
    batch: BatchDefaults
    name: str = field(compare=False)
    compute_capability: ComputeCapability = field(compare=False)

    @classmethod
    def of(
        cls, architecture: ModelArchitecture, flags: ServeFlags, rules: EngineRules, gpu: GpuType
    ) -> "DeviceTerms":
        """Return the terms of a GPU type.

        Raises:
            EngineRefusal: the release does not have the model's class, or not in the requested type.
            ValueError: the GPU has no compute capability.
        """
        if gpu.compute_capability is None:
            raise ValueError(f"{gpu.id} has no compute capability")
        written_fields.check_written_fields(architecture, rules)
        check_model_class(architecture.class_name, rules.release)
        dtype = model_dtype.resolve_model_dtype(architecture, flags.dtype, gpu, rules.dtypes)
        quantization, unloadable = architecture.quantization, None
        try:
            quantization = weight_quantization.run_with(quantization, flags.quantization)
            checkpoint_checks.check_modelopt_algorithm(quantization, rules.layouts)
            check_sparse_weights(quantization, rules.kernels)
            checkpoint_checks.check_checkpoint(
                quantization, dtype, gpu.compute_capability, rules.checkpoints, flag=flags.quantization
            )
            checkpoint_checks.check_gguf(quantization, dtype, gpu.compute_capability, rules.gguf)
            checkpoint_checks.check_method(quantization, rules.layouts, rules.auto_round)
        except EngineRefusal as refusal:
            unloadable = refusal
        batch = batch_defaults(rules.batches, gpu)
        return cls(dtype, quantization, unloadable, batch, gpu.name, gpu.compute_capability)


def resolve_engine_config(
    architecture: ModelArchitecture, flags: ServeFlags, rules: EngineRules, gpu: GpuType
) -> EngineConfig:
    """Fill in defaults and check what the engine checks before it builds the model, in its order.

    Raises:
        EngineRefusal: the engine would not get past its configuration.
        UnmodelledSpeculation: the memory of its speculative decoding is not modelled.
        ValueError: the GPU has no compute capability.
    """
    return configure(architecture, flags, rules, DeviceTerms.of(architecture, flags, rules, gpu))


def configure(
    architecture: ModelArchitecture, flags: ServeFlags, rules: EngineRules, device: DeviceTerms
) -> EngineConfig:
    """Fill in defaults and check what the engine checks before it builds the model, in its order.

    Source: vLLM 0.32.0, EngineArgs.create_engine_config and VllmConfig.__post_init__.

    Raises:
        EngineRefusal: the engine would not get past its configuration.
        UnmodelledSpeculation: the memory of its speculative decoding is not modelled.
    """
    length, dtype = resolve_length(architecture, flags, rules), device.dtype
    _check_flags(architecture, flags, rules)
    kv_cache_dtype = cache_dtype.resolve_cache_dtype(
        flags.kv_cache_dtype or "auto", architecture.quantization, rules.dtypes
    )
    skipped = cache_dtype.skipped_layers(
        kv_cache_dtype, flags.kv_cache_dtype_skip_layers, architecture, rules.dtypes
    )
    parallel_checks.check_uneven_ranks(flags, rules.parallelism)
    flags = pooling_flags(architecture, flags, rules.pooling, length.tokens)
    indexer_dtype = indexer_keys.resolve_indexer_dtype(architecture, flags, rules.indexers)
    drafted = speculation.resolve_speculation(architecture, flags, rules.speculation, rules.release)
    limits = RequestLimits.of(architecture, flags, rules, device.batch, length, drafted)
    max_model_len, batched = limits.max_model_len, limits.max_num_batched_tokens
    _check_batch(architecture, flags, rules.batches, batched, max_model_len)
    expert_checks.check_balancing(flags, rules.parallelism)
    graph_mode = resolve_graph_mode(flags)
    sizes = graph_sizes(flags, batched, graph_mode)
    _check_ranks(architecture, flags, rules.parallelism)
    check_draft_experts(drafted, flags, rules.parallelism)
    if device.unloadable is not None:
        raise device.unloadable.with_traceback(None)
    cache_dtype.check_floats(kv_cache_dtype, dtype, rules.dtypes)
    cache_dtype.check_mla_cache_dtype(kv_cache_dtype, architecture, rules.dtypes)
    _check_slots(drafted, batched, limits.max_num_seqs, rules.speculation)
    caching, mode = _state_caching(architecture, flags, rules, drafted, max_model_len)
    conv_state = architecture_dtype(flags.mamba_cache_dtype, dtype)
    adapter_checks.check_model(architecture, flags, rules.adapters)
    indexer_keys.check_indexer_dtype(architecture, indexer_dtype, device.compute_capability, rules.indexers)
    named = environment.names_model_runner(flags, rules.release)
    v2_model_runner = runs_on_v2_model_runner(architecture, rules, drafted, named)
    check_v2_model_runner(architecture, flags, rules.batches, mode, named=named)
    found = EngineConfig(
        rules=rules,
        device_name=device.name,
        compute_capability=device.compute_capability,
        tensor_parallel_size=flags.tensor_parallel_size or 1,
        pipeline_parallel_size=flags.pipeline_parallel_size,
        decode_context_parallel_size=flags.decode_context_parallel_size,
        enable_expert_parallel=flags.enable_expert_parallel,
        dtype=dtype,
        max_model_len=max_model_len,
        fit_max_model_len=limits.fit_max_model_len,
        max_num_batched_tokens=batched,
        max_num_seqs=limits.max_num_seqs,
        gpu_memory_utilization=_utilization(flags, rules.capacity),
        num_gpu_blocks_override=flags.num_gpu_blocks_override,
        kv_cache_dtype=kv_cache_dtype,
        kv_cache_dtype_skip_layers=skipped,
        block_size=flags.block_size,
        attention_backend=_attention_backend(
            environment.requested_backend(flags, rules.release), rules.kernels
        ),
        enable_prefix_caching=caching,
        concurrent_batches=_concurrent_batches(flags, rules, mode, drafted, v2_model_runner=v2_model_runner),
        enforce_eager=flags.enforce_eager,
        hybrid_manager=offload_checks.keeps_hybrid_manager(flags, rules.groups)
        and keeps_several_kinds(architecture, flags, rules.groups, rules.transfers, drafted),
        mamba_cache_mode=mode,
        mamba_block_size=flags.mamba_block_size,
        conv_state_dtype=conv_state,
        recurrent_state_dtype=_recurrent_dtype(architecture, flags, rules.states, conv_state),
        bidirectional_media=sees_media_both_ways(architecture, flags, rules.batches),
        encoder_tokens=_encoder_tokens(architecture, batched, is_batch=rules.batches.encoder_budget_is_batch),
        encoder_request_tokens=_encoder_tokens(
            architecture, batched, is_batch=rules.batches.encoder_request_is_batch
        ),
        cache_method=cache_dtype.cache_method(
            device.quantization if rules.dtypes.online_cache_scales else architecture.quantization
        ),
        passes_cache_dtype=cache_dtype.passes_cache_dtype(architecture, rules.dtypes),
        speculation=drafted,
        v2_model_runner=v2_model_runner,
        expert_kernel=expert_kernels.named_kernel(architecture, flags, rules.release),
        whole_encoders=parallel_checks.has_whole_encoders(architecture, flags, rules.parallelism),
        graph_mode=graph_mode,
        graph_sizes=sizes,
        prefix_match_unit=flags.prefix_match_unit,
        indexer_dtype=indexer_dtype,
    )
    if found.offloads_weights:
        offload_checks.check_online(architecture.quantization, flags, rules.checkpoints)
    return found


def _check_flags(architecture: ModelArchitecture, flags: ServeFlags, rules: EngineRules) -> None:
    """Refuse flags that the release does not take, whatever else is set."""
    check_partial_prefills(flags, rules.batches, rules.release)
    weight_quantization.check_modelopt_file(architecture.quantization, rules.layouts)
    weight_quantization.check_methods(architecture, flags.quantization, rules.checkpoints)
    cache_dtype.check_cache_dtype(flags.kv_cache_dtype or "auto", rules.dtypes, rules.release)
    state_caching.check_state_choices(flags, rules.states)
    offload_checks.check_flags(flags)
    offload_checks.check_block_offloading(flags, rules.groups)
    adapter_checks.check_flags(flags, rules.adapters)


def _check_ranks(architecture: ModelArchitecture, flags: ServeFlags, rules: ParallelismRules) -> None:
    """Refuse parallel sizes that do not divide the model."""
    tensor_parallel = flags.tensor_parallel_size or 1
    parallel_checks.check_heads(architecture, tensor_parallel)
    expert_checks.check_experts(architecture, expert_parallel=flags.enable_expert_parallel)
    parallel_checks.check_pipeline(architecture, flags.pipeline_parallel_size, rules)
    parallel_checks.check_context_parallel(
        architecture, tensor_parallel, flags.decode_context_parallel_size, rules
    )


def _state_caching(
    architecture: ModelArchitecture,
    flags: ServeFlags,
    rules: EngineRules,
    drafted: Speculation | None,
    max_model_len: int,
) -> tuple[bool, str]:
    """Return whether prefixes are cached, and which recurrent states are cached for them."""
    caching, mode = state_caching.resolve_state_caching(
        architecture,
        flags,
        rules.states,
        drafts_align=drafted is not None and rules.speculation.drafts_align_states,
    )
    _check_aligned_states(drafted, mode, rules.speculation)
    state_caching.check_state_flags(
        flags, rules.states, caching=caching, mode=mode, max_model_len=max_model_len
    )
    state_caching.check_state_dtype(architecture, flags, rules.states)
    return caching, mode


def _attention_backend(requested: str | None, rules: KernelRules) -> str | None:
    """Return the backend that a flag names, as the engine spells it; ``None`` leaves it to the engine.

    The engine compares names in upper case.

    Source: vLLM 0.13.0 and 0.32.0, config/attention.py AttentionConfig.validate_backend_before.
    """
    name = None if requested is None else requested.upper()
    return None if name == "AUTO" and rules.auto_backend else name


def _encoder_tokens(architecture: ModelArchitecture, batched: int, *, is_batch: bool) -> int:
    """Return the tokens of an encoder that the cache has room for: a batch's, or else the model's most."""
    if architecture.encoder_tokens is None:
        return 0
    return batched if is_batch else architecture.encoder_tokens


def architecture_dtype(requested: str | None, dtype: str) -> str:
    """Return the type of a state: the requested one, or else the model's own."""
    return dtype if requested in (None, "auto") else model_dtype.ALIASES.get(requested, requested)


def _recurrent_dtype(
    architecture: ModelArchitecture, flags: ServeFlags, rules: StateRules, conv_state: str
) -> str:
    """Return the type of the recurrent part of a state: the flag's, the config's, or its kind's own."""
    kinds = {state_kind(mixer) for mixer in architecture.recurrences}
    unset = next((rules.own_dtype[kind] for kind in kinds & rules.own_dtype.keys()), conv_state)
    if kinds & rules.single_dtype_kinds:
        return unset
    if flags.mamba_ssm_cache_dtype not in (None, "auto"):
        return architecture_dtype(flags.mamba_ssm_cache_dtype, conv_state)
    default = rules.configured_dtype.get(architecture.class_name)
    if default is not None:
        return architecture_dtype(architecture.states.dtype or default or None, conv_state)
    return unset


def _check_slots(drafted: Speculation | None, batched: int, seqs: int, rules: SpeculationRules) -> None:
    """Refuse a step in which drafting leaves no token.

    Source: vLLM 0.20.0, VllmConfig._set_max_num_scheduled_tokens.
    """
    if drafted is None or not rules.draft_slots:
        return
    scheduled = batched - drafted.slots * seqs
    if scheduled <= 0:
        raise EngineRefusal(
            Stage.CONFIG,
            f"VllmConfig: max_num_scheduled_tokens is set to {scheduled} based on the speculative decoding "
            "settings, which does not allow any tokens to be scheduled. Increase max_num_batched_tokens to "
            "accommodate the additional draft token slots, or decrease num_speculative_tokens or "
            "max_num_seqs.",
            type="ValidationError",
        )


def _check_aligned_states(drafted: Speculation | None, mode: str, rules: SpeculationRules) -> None:
    if drafted is not None and mode == state_caching.ALIGN and rules.aligned_states_refusal:
        words = f"VllmConfig: {rules.aligned_states_refusal}"
        raise EngineRefusal(Stage.CONFIG, words, type="ValidationError")


def _utilization(flags: ServeFlags, rules: CapacityRules) -> float:
    given = flags.gpu_memory_utilization
    return rules.gpu_memory_utilization / 100 if given is None else given


def _concurrent_batches(
    flags: ServeFlags,
    rules: EngineRules,
    state_mode: str,
    drafted: Speculation | None,
    *,
    v2_model_runner: bool,
) -> int:
    """Return the batches that scheduling keeps in flight: vLLM 0.32.0, VllmConfig.max_concurrent_batches."""
    stages = flags.pipeline_parallel_size
    overlaps = flags.async_scheduling
    if overlaps is None:
        overlaps = _overlaps(rules.batches.async_scheduling, stages, state_mode) and _drafts_overlap(
            drafted, rules.speculation
        )
    elif overlaps:
        _check_overlap(drafted, rules.speculation)
    if not overlaps:
        return stages
    if stages == 1:
        return 2
    return stages + (1 if v2_model_runner else 0)


def _drafts_overlap(drafted: Speculation | None, rules: SpeculationRules) -> bool:
    return drafted is None or (drafted.padded and drafted.method in rules.async_methods)


def _check_overlap(drafted: Speculation | None, rules: SpeculationRules) -> None:
    """Refuse requested asynchronous scheduling with a speculative method that does not support it."""
    if drafted is None or (drafted.padded and drafted.method in rules.async_requested_methods):
        return
    words = rules.async_refusal.format(method=drafted.method)
    error = "ValidationError" if words.startswith("VllmConfig") else "ValueError"
    raise EngineRefusal(Stage.CONFIG, words, type=error)


def _overlaps(default: AsyncScheduling, stages: int, state_mode: str) -> bool:
    match default:
        case AsyncScheduling.OFF:
            return False
        case AsyncScheduling.UNLESS_PIPELINED:
            return stages == 1
        case AsyncScheduling.UNLESS_STATES_ARE_CACHED:
            return state_mode == "none"
        case AsyncScheduling.ON:
            return True
    assert_never(default)


def _check_batch(
    architecture: ModelArchitecture, flags: ServeFlags, rules: BatchRules, batched: int, max_model_len: int
) -> None:
    """Refuse batches smaller than ``max_num_seqs``, or than a whole prompt where prompts are not chunked.

    Source: vLLM 0.32.0, SchedulerConfig.verify_max_model_len.

    Raises:
        EngineRefusal: stage ``config``.
    """
    whole = architecture.encoder_tokens is not None or flags.enable_chunked_prefill is False
    if whole and rules.whole_prompts and batched < max_model_len:
        raise EngineRefusal(
            Stage.CONFIG,
            f"SchedulerConfig: max_num_batched_tokens ({batched}) is smaller than max_model_len "
            f"({max_model_len}). This effectively limits the maximum sequence length to "
            "max_num_batched_tokens and makes vLLM reject longer sequences. Please increase "
            "max_num_batched_tokens or decrease max_model_len.",
            type="ValidationError",
        )
    if flags.max_num_seqs is not None and batched < flags.max_num_seqs:
        raise EngineRefusal(
            Stage.CONFIG,
            f"SchedulerConfig: max_num_batched_tokens ({batched}) must be greater than or equal to "
            f"max_num_seqs ({flags.max_num_seqs}).",
            type="ValidationError",
        )
