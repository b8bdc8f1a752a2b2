"""The memory budget of the fullest rank while the engine starts."""

from dataclasses import dataclass, replace
from itertools import chain
from typing import Final

from service.architecture.model import ModelArchitecture
from service.changed import changed
from service.engines.releases import rules_for
from service.memory.activation import NO_COPY
from service.memory.budget_inputs import BudgetInputs
from service.memory.budget_types import Basis, Estimate, HostDemand, MemoryBudget, WeightsEstimate
from service.memory.constants import MemoryConstants, constants_at
from service.memory.dequantized import AWQ, dequantized_matrices
from service.memory.device import (
    DeviceConstants,
    Ranks,
    free_memory,
    non_torch_growth,
    requested_memory,
    unexplained,
)
from service.memory.exchange import CHUNK_TOKENS, exchange_buffers
from service.memory.expert_spaces import scales_room
from service.memory.graphs import DATA_CENTER_BLACKWELL, Capture
from service.memory.host import host_memory
from service.memory.interval import difference, exact, total, without
from service.memory.mega_moe import symmetric_buffer
from service.memory.offloading import Offload, host_bytes, moved_bytes
from service.memory.parallelism import Parallelism
from service.memory.profile_run import ProfileRun
from service.memory.shared_terms import graphs_of, profiled
from service.memory.weights.blocks.tower_modules import built_towers
from service.memory.weights.counts.checkpoint_parameters import needs_checkpoint_bytes, stage_parameters
from service.memory.weights.counts.draft_weights import draft_parameters
from service.memory.weights.counts.own_output import loaded_model, with_doubt
from service.memory.weights.counts.parameters import layer_modules_of, layer_tensors
from service.memory.weights.resident.adapters import NONE, AdapterRoom, AdapterSlots
from service.memory.weights.resident.allocation import NO_RESTS, Loading, segment_rests
from service.memory.weights.resident.converted_fp8 import converted_fp8
from service.memory.weights.resident.freed_indices import freed_indices
from service.memory.weights.resident.resident_weights import resident_weights
from service.memory.weights.schemes.online_quantization import quantized_online
from service.memory.weights.weight_layout import weight_layout_at
from service.memory.weights.weight_stage import WeightStage

MOVED_EXPERTS: Final = (
    "room for the experts of one layer that are received from other ranks; vLLM 0.13.0 and 0.32.0, "
    "distributed/eplb/eplb_state.py EplbState.add_model"
)
REMAINDER: Final = (
    "requested less weights, activation, non-torch growth and CUDA graphs; the bounds also hold by how much "
    "logged starts on such GPUs differ for no known reason"
)

SUMS_OF_A_LAYER: Final = 2
"""Sums over ranks in a layer: after its mixer, and after its feed-forward network."""


def estimate_budget(architecture: ModelArchitecture, inputs: BudgetInputs) -> MemoryBudget:
    """Return the budget of the pipeline stage with the least memory left for the cache.

    Raises:
        LookupError: the release is older than the dated constants.
    """
    loaded = loaded_model(architecture, inputs.release, inputs.checkpoint_bytes)
    stored = quantized_online(loaded.architecture, inputs.quantization)
    unchanged = stored is loaded.architecture and _loads_as_stored(stored, inputs.dtype)
    checkpoint_bytes = inputs.checkpoint_bytes if unchanged else None
    start = _Start(stored, inputs, constants_at(inputs.release), converts=stored is not loaded.architecture)
    stages = inputs.deployment.stages(stored)
    sizes = stage_parameters(stored, inputs.deployment, inputs.release, checkpoint_bytes)
    if loaded.other is not None:
        other = quantized_online(loaded.other, inputs.quantization)
        doubted = stage_parameters(other, inputs.deployment, inputs.release, checkpoint_bytes)
        sizes = with_doubt(sizes, doubted)
    *others, last = sizes
    if stored.draft is not None:
        last = total((last, draft_parameters(stored, inputs.deployment, inputs.release)), last.source)
    parameters = (*others, last)
    return min(map(start.stage, parameters, stages), key=_room)


def _loads_as_stored(architecture: ModelArchitecture, dtype: str | None) -> bool:
    """Whether the checkpoint's size says what the engine loads, and more than the closed form.

    It says nothing about weights that the engine converts while it loads; quantized ones stay as they are.
    """
    if dtype is None:
        return True
    same = architecture.quantization is not None or dtype == architecture.dtype
    return same and needs_checkpoint_bytes(architecture)


def _room(budget: MemoryBudget) -> int:
    taken = (budget.weights, budget.activation, budget.non_torch, budget.cuda_graphs)
    return budget.requested.bytes - sum(term.bytes for term in taken)


@dataclass(frozen=True, slots=True)
class _Start:
    """One start of the engine, whose budget is computed stage by stage."""

    architecture: ModelArchitecture
    inputs: BudgetInputs
    constants: MemoryConstants
    converts: bool
    """The engine quantizes the weights while it loads them."""

    def stage(self, parameters: Estimate, layers: range) -> MemoryBudget:
        inputs = self.inputs
        requested = requested_memory(inputs.total, inputs.gpu_memory_utilization, self.constants.device)
        adapters = self._room(layers, self.inputs.adapters, self.inputs.deployment)
        weights = self._weights(parameters, layers, adapters)
        peak, copy = profiled(self.architecture, inputs.release, self._profile(layers))
        non_torch = self._non_torch()
        graphs, captured = graphs_of(self.architecture, inputs.release, self._capture(layers))
        beyond = self._unexplained()
        left = difference(requested, (weights, peak, non_torch, graphs, beyond), REMAINDER)
        given = inputs.kv_cache_memory_bytes
        return MemoryBudget(
            total=inputs.total,
            requested=requested,
            free=_free(inputs, inputs.total, self.constants.device),
            weights=weights,
            adapters=adapters,
            host=self._host(layers, weights),
            activation=peak,
            compiled_copy=copy,
            non_torch=non_torch,
            cuda_graphs=graphs,
            unexplained=beyond,
            captured_graphs=captured,
            available_kv=left if given is None else exact(given, Basis.GIVEN, "kv_cache_memory_bytes"),
        )

    def _unexplained(self) -> Estimate:
        return unexplained(
            self.inputs.compute_capability,
            self.constants.device,
            several_ranks=self.inputs.tensor_parallel_size > 1,
            unified_memory=self.inputs.unified_memory,
        )

    def _host(self, layers: range, weights: WeightsEstimate) -> HostDemand:
        inputs, moved = self.inputs, None
        asleep = weights if inputs.sleeps else None
        if inputs.offload is not None:
            tensors = layer_tensors(self.architecture, inputs.deployment, inputs.release)
            moved = host_bytes(tensors[layers.start : layers.stop], inputs.offload)
        # A process loads an adapter whole, and copies its part of it to the GPU.
        alone = replace(inputs.deployment, tensor_parallel_size=1, enable_expert_parallel=False)
        slots = None if inputs.adapters is None else replace(inputs.adapters, slots=1)
        whole = self._room(layers, slots, replace(alone, data_parallel_size=1)).high
        lookups = (layer.ngrams for layer in self.architecture.layers)
        tables = sum(lookup.table_bytes for lookup in lookups if lookup is not None)
        return host_memory(inputs.host, moved, whole, asleep, tables)

    def _room(self, layers: range, slots: AdapterSlots | None, deployment: Parallelism) -> Estimate:
        """Return the buffers for adapters of a stage; on the GPU they are part of its weights."""
        if slots is None:
            return NONE
        of_layers = layer_modules_of(self.architecture, deployment, self.inputs.release)
        rules = rules_for(self.inputs.release).adapters
        return AdapterRoom(self.architecture, rules, slots, deployment.shards).of_stage(
            tuple(chain.from_iterable(of_layers[layers.start : layers.stop])),
            first=layers.start == 0,
            last=layers.stop == len(self.architecture.layers),
        )

    def _weights(self, parameters: Estimate, layers: range, adapters: Estimate) -> WeightsEstimate:
        inputs = self.inputs
        whole = weight_layout_at(inputs.release)
        layout = whole.stages
        encodes = layers.start == 0 or layout.towers_on_every_stage
        towers = tuple(built_towers(self.architecture, whole.towers, inputs.media))
        stage = WeightStage(
            shards=inputs.deployment.shards,
            layers=layers,
            sequences=inputs.max_num_seqs,
            turboquant_layers=inputs.turboquant_layers.intersection(layers),
            batch_tokens=inputs.max_num_batched_tokens,
            encodes=encodes and bool(towers) and not inputs.language_model_only,
            compute_capability=inputs.compute_capability,
        )
        resident = resident_weights(self.architecture, self.constants.resident, layout, parameters, stage)
        if inputs.offload is None and parameters.basis is Basis.COMPUTED:
            freed = freed_indices(self.architecture, inputs.deployment, inputs.release, layers)
            resident = _with(resident, freed) if freed.bytes else resident
            converted = self._converted(layers)
            resident = _with(resident, converted) if converted.bytes else resident
            rests = self._rests(layers)
            resident = _with(resident, rests) if rests.bytes else resident
        if inputs.balances_experts:
            resident = _with(resident, self._moved_experts(layers))
        if inputs.adapters is not None:
            resident = _with(resident, adapters)
        return (
            resident if inputs.offload is None else self._without_offloaded(resident, layers, inputs.offload)
        )

    def _converted(self, layers: range) -> Estimate:
        """Return what kernels add to weights in 8-bit floats."""
        inputs = self.inputs
        return converted_fp8(
            self.architecture, inputs.deployment, inputs.release, layers, self.constants.resident
        )

    def _rests(self, layers: range) -> Estimate:
        """Return what segments of the allocator hold beyond the weights."""
        inputs = self.inputs
        if inputs.expands_segments:
            return NO_RESTS
        loading = Loading(self.constants.resident.unsplit_mib, converts=self.converts)
        return segment_rests(self.architecture, inputs.deployment, inputs.release, layers, loading)

    def _moved_experts(self, layers: range) -> Estimate:
        """Return the room for the experts of one layer, into which experts of other ranks are received.

        Source: vLLM 0.13.0 and 0.32.0, EplbState.add_model; 0.11.0 has it only while it moves experts, and
        in the profile run.
        """
        of_layers = layer_tensors(self.architecture, self.inputs.deployment, self.inputs.release)
        sizes = (
            size
            for layer in of_layers[layers.start : layers.stop]
            for name, size in layer
            if name.endswith("experts") and "shared" not in name
        )
        return exact(max(sizes, default=0), Basis.COMPUTED, MOVED_EXPERTS)

    def _without_offloaded(
        self, resident: WeightsEstimate, layers: range, offload: Offload
    ) -> WeightsEstimate:
        """Return what the GPU holds of a stage's weights."""
        inputs = self.inputs
        tensors = layer_tensors(self.architecture, inputs.deployment, inputs.release)
        moved = moved_bytes(
            tensors[layers.start : layers.stop],
            offload,
            quantized=self.architecture.quantization is not None,
            stays=self.constants.resident.offload_survives_repacking,
        )
        left = difference(
            resident, (moved,), f"{resident.source}; less what lies in the host's memory: {moved.source}"
        )
        return WeightsEstimate(
            left.bytes,
            left.low,
            left.high,
            left.basis,
            left.source,
            parameter_bytes=resident.parameter_bytes - moved.bytes,
        )

    def _profile(self, layers: range) -> ProfileRun:
        deployment = self.inputs.deployment
        return ProfileRun(
            shards=deployment.shards,
            element_bytes=deployment.element_bytes(self.architecture),
            tokens=self.inputs.max_num_batched_tokens,
            sequences=self.inputs.max_num_seqs,
            samples=layers.stop == len(self.architecture.layers) and self.architecture.pooling is None,
            encodes=layers.start == 0 and not deployment.language_model_only and deployment.media.profiled,
            media=replace(deployment.media, language_model_only=deployment.language_model_only),
            whole_encoders=deployment.whole_encoders,
            towers=weight_layout_at(self.inputs.release).towers,
            v2_model_runner=self.inputs.v2_model_runner,
            compiles_embedding=layers.start == 0 and not self.inputs.enforce_eager,
            compiled=not self.inputs.enforce_eager,
            draft_tokens=self.inputs.speculative_tokens > 0,
            max_model_len=self.inputs.max_model_len,
            data_parallel_size=self.inputs.data_parallel_size,
            expert_kernel=self.inputs.expert_kernel,
            blackwell=self.inputs.compute_capability[0] == DATA_CENTER_BLACKWELL,
            dequantized=dequantized_matrices(
                self.architecture,
                deployment,
                self.inputs.release,
                layers,
                forced=self.inputs.quantization == AWQ,
            ),
        )

    def _capture(self, layers: range) -> Capture:
        inputs = self.inputs
        last = layers.stop == len(self.architecture.layers)
        drafted = len(self.architecture.built_layers) - layers.stop if last else 0
        return Capture(
            layers=len(layers) + drafted,
            sequences=inputs.max_num_seqs,
            batch_tokens=inputs.max_num_batched_tokens,
            step_tokens=1 + inputs.speculative_tokens,
            blackwell=inputs.compute_capability[0] == DATA_CENTER_BLACKWELL,
            eager=inputs.enforce_eager,
            v2_model_runner=inputs.v2_model_runner,
            largest=inputs.max_cudagraph_capture_size,
            all_reduces=SUMS_OF_A_LAYER * len(layers) * inputs.sums_by_nccl,
            variants=2 if inputs.adapters and rules_for(inputs.release).adapters.graphs_without else 1,
            mode=inputs.graph_mode,
            sizes=inputs.graph_sizes,
            kernel_bytes=scales_room(self.architecture, self._profile(range(0))),
            reserved=inputs.reserves_graphs,
        )

    def _exchange_buffers(self) -> Estimate | None:
        backend, whole = self.inputs.all2all_backend, rules_for(self.inputs.release).batches.expert_batches
        tokens = self.inputs.max_num_batched_tokens if whole else CHUNK_TOKENS
        return exchange_buffers(self.architecture, backend, tokens)

    def _non_torch(self) -> Estimate:
        inputs = self.inputs
        growth = non_torch_growth(
            inputs.compute_capability,
            self.constants.device,
            Ranks(inputs.tensor_parallel_size > 1, inputs.enforce_eager, inputs.nvlink),
            unified_memory=inputs.unified_memory,
        )
        sends = inputs.enable_expert_parallel and inputs.data_parallel_size > 1
        buffers = self._exchange_buffers() if sends else None
        exchange = symmetric_buffer(self.architecture, self._profile(range(0)))
        reserved = exact(inputs.reserved_bytes, Basis.GIVEN, "mm_ipc_gpu_memory_gb")
        others = tuple(term for term in (buffers, exchange, reserved) if term is not None and term.high)
        if not others:
            return growth
        return total((growth, *others), "; ".join(term.source for term in (growth, *others)))


def _with(weights: WeightsEstimate, other: Estimate) -> WeightsEstimate:
    """Return weights with what is allocated beside them."""
    both = total((weights, other), f"{weights.source}; {other.source}")
    return replace(weights, bytes=both.bytes, low=both.low, high=both.high, source=both.source)


def _free(inputs: BudgetInputs, device: Estimate, constants: DeviceConstants) -> Estimate:
    specified = inputs.free_memory_bytes
    if specified is not None:
        return exact(specified, Basis.GIVEN, "free_memory_bytes")
    several_ranks = inputs.tensor_parallel_size * inputs.pipeline_parallel_size > 1
    return free_memory(device, constants, several_ranks=several_ranks)


def compiled_before(budget: MemoryBudget) -> MemoryBudget:
    """Return the budget of the same start where the compiled model is in the cache."""
    peak = without(budget.activation, budget.compiled_copy)
    left = budget.available_kv
    if left.basis is not Basis.GIVEN:
        taken = (budget.weights, peak, budget.non_torch, budget.cuda_graphs, budget.unexplained)
        left = difference(budget.requested, taken, REMAINDER)
    return changed(budget, activation=peak, compiled_copy=NO_COPY, available_kv=left)


def on_device(budget: MemoryBudget, inputs: BudgetInputs, device: Estimate) -> MemoryBudget:
    """Return the budget of the same start on a device of another total; the other terms do not change."""
    constants = constants_at(inputs.release).device
    requested = requested_memory(device, inputs.gpu_memory_utilization, constants)
    taken = (budget.weights, budget.activation, budget.non_torch, budget.cuda_graphs, budget.unexplained)
    left = budget.available_kv
    if inputs.kv_cache_memory_bytes is None:
        left = difference(requested, taken, REMAINDER)
    free = _free(inputs, device, constants)
    return changed(budget, total=device, requested=requested, free=free, available_kv=left)
