"""The memory budget of the fullest rank while the engine starts."""

from dataclasses import dataclass, replace
from typing import Final

from packaging.version import Version

from service.architecture.model import ModelArchitecture
from service.memory.activation import activation
from service.memory.budget_types import (
    Basis,
    Estimate,
    MemoryBudget,
    WeightsEstimate,
)
from service.memory.constants import MemoryConstants, constants_at
from service.memory.device import DeviceConstants, free_memory, non_torch_growth, requested_memory
from service.memory.graphs import Capture, captured_graphs, cuda_graphs
from service.memory.interval import difference, exact, total
from service.memory.offloading import Offload, moved_bytes
from service.memory.parallelism import Parallelism
from service.memory.profile_run import ProfileRun
from service.memory.weights.checkpoint_parameters import stage_parameters
from service.memory.weights.draft_weights import draft_parameters
from service.memory.weights.online_quantization import quantized_online
from service.memory.weights.parameters import layer_tensors
from service.memory.weights.resident_weights import WeightStage, resident_weights
from service.memory.weights.weight_layout import weight_layout_at

REMAINDER: Final = "requested less weights, activation, non-torch growth and CUDA graphs"


@dataclass(frozen=True, slots=True)
class BudgetInputs:
    """What the budget depends on besides the model, with every default resolved."""

    release: Version
    total: Estimate
    """The device's total memory as CUDA reports it."""
    compute_capability: tuple[int, int]
    gpu_memory_utilization: float
    max_num_batched_tokens: int
    max_num_seqs: int
    max_model_len: int
    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    data_parallel_size: int = 1
    enable_expert_parallel: bool = False
    enforce_eager: bool = False
    max_cudagraph_capture_size: int | None = None
    """Tokens of the largest CUDA graph; ``None``: the release's default."""
    speculative_tokens: int = 0
    """Draft tokens of one request in one step."""
    v2_model_runner: bool = False
    """The V2 model runner runs the model."""
    unified_memory: bool = False
    """The GPU shares the host's memory."""
    language_model_only: bool = False
    free_memory_bytes: int | None = None
    """Bytes that are free when the engine starts, as given by the caller."""
    kv_cache_memory_bytes: int | None = None
    """Bytes of the cache per rank, as set by the caller."""
    dtype: str | None = None
    """The model's dtype in the engine; ``None``: the config's."""
    quantization: str | None = None
    """The flag ``--quantization``, which quantizes an unquantized checkpoint while it loads."""
    turboquant_layers: frozenset[int] = frozenset()
    """Numbers of the layers whose cache is in a TurboQuant type."""
    checkpoint_bytes: int | None = None
    """Bytes of all tensors of the checkpoint; ``None``: unknown."""
    offload: Offload | None = None
    """Which weights lie in the host's memory; ``None``: none do."""

    @property
    def deployment(self) -> Parallelism:
        """The inputs that decide which weights a rank has."""
        return Parallelism(
            tensor_parallel_size=self.tensor_parallel_size,
            pipeline_parallel_size=self.pipeline_parallel_size,
            data_parallel_size=self.data_parallel_size,
            enable_expert_parallel=self.enable_expert_parallel,
            compute_capability=self.compute_capability,
            language_model_only=self.language_model_only,
            dtype=self.dtype,
        )


def estimate_budget(architecture: ModelArchitecture, inputs: BudgetInputs) -> MemoryBudget:
    """Return the budget of the pipeline stage with the least memory left for the cache.

    Raises:
        LookupError: the release is older than the dated constants.
    """
    stored = quantized_online(architecture, inputs.quantization)
    # The checkpoint's size says nothing about weights that the engine converts while it loads.
    unchanged = stored is architecture and inputs.dtype is None
    checkpoint_bytes = inputs.checkpoint_bytes if unchanged else None
    start = _Start(stored, inputs, constants_at(inputs.release))
    stages = inputs.deployment.stages(stored)
    *others, last = stage_parameters(stored, inputs.deployment, inputs.release, checkpoint_bytes)
    if stored.draft is not None:
        last = total((last, draft_parameters(stored, inputs.deployment, inputs.release)), last.source)
    parameters = (*others, last)
    return min(map(start.stage, parameters, stages), key=_room)


def _room(budget: MemoryBudget) -> int:
    taken = (budget.weights, budget.activation, budget.non_torch, budget.cuda_graphs)
    return budget.requested.bytes - sum(term.bytes for term in taken)


@dataclass(frozen=True, slots=True)
class _Start:
    """One start of the engine, whose budget is computed stage by stage."""

    architecture: ModelArchitecture
    inputs: BudgetInputs
    constants: MemoryConstants

    def stage(self, parameters: Estimate, layers: range) -> MemoryBudget:
        inputs = self.inputs
        requested = _requested(inputs, self.constants.device)
        weights = self._weights(parameters, layers)
        peak = activation(
            self.architecture, self.constants.activation, self.constants.encoders, self._profile(layers)
        )
        non_torch = self._non_torch()
        capture = self._capture(layers)
        graphs = cuda_graphs(self.architecture, self.constants.graphs, capture)
        left = difference(requested, (weights, peak, non_torch, graphs), REMAINDER)
        given = inputs.kv_cache_memory_bytes
        return MemoryBudget(
            total=inputs.total,
            requested=requested,
            free=_free(inputs, self.constants.device),
            weights=weights,
            activation=peak,
            non_torch=non_torch,
            cuda_graphs=graphs,
            captured_graphs=captured_graphs(self.architecture, self.constants.graphs, capture),
            available_kv=left if given is None else exact(given, Basis.GIVEN, "kv_cache_memory_bytes"),
        )

    def _weights(self, parameters: Estimate, layers: range) -> WeightsEstimate:
        inputs = self.inputs
        layout = weight_layout_at(inputs.release).stages
        encodes = layers.start == 0 or layout.towers_on_every_stage
        stage = WeightStage(
            shards=inputs.deployment.shards,
            layers=layers,
            sequences=inputs.max_num_seqs,
            turboquant_layers=inputs.turboquant_layers.intersection(layers),
            encoded_tokens=inputs.max_num_batched_tokens * (encodes and not inputs.language_model_only),
            compute_capability=inputs.compute_capability,
        )
        resident = resident_weights(self.architecture, self.constants.resident, layout, parameters, stage)
        return (
            resident if inputs.offload is None else self._without_offloaded(resident, layers, inputs.offload)
        )

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
            samples=layers.stop == len(self.architecture.layers),
            encodes=layers.start == 0 and not deployment.language_model_only,
            v2_model_runner=self.inputs.v2_model_runner,
            draft_tokens=self.inputs.speculative_tokens > 0,
            max_model_len=self.inputs.max_model_len,
            data_parallel_size=self.inputs.data_parallel_size,
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
            compute_capability=inputs.compute_capability,
            eager=inputs.enforce_eager,
            v2_model_runner=inputs.v2_model_runner,
            largest=inputs.max_cudagraph_capture_size,
        )

    def _non_torch(self) -> Estimate:
        inputs = self.inputs
        return non_torch_growth(
            inputs.compute_capability,
            self.constants.device,
            several_ranks=inputs.tensor_parallel_size > 1,
            unified_memory=inputs.unified_memory,
        )


def _requested(inputs: BudgetInputs, constants: DeviceConstants) -> Estimate:
    return requested_memory(inputs.total, inputs.gpu_memory_utilization, constants)


def _free(inputs: BudgetInputs, constants: DeviceConstants) -> Estimate:
    specified = inputs.free_memory_bytes
    if specified is not None:
        return exact(specified, Basis.GIVEN, "free_memory_bytes")
    several_ranks = inputs.tensor_parallel_size * inputs.pipeline_parallel_size > 1
    return free_memory(inputs.total, constants, several_ranks=several_ranks)


def on_device(budget: MemoryBudget, inputs: BudgetInputs) -> MemoryBudget:
    """Return the budget of the same start on a device with another total; the other terms do not change."""
    constants = constants_at(inputs.release).device
    requested = _requested(inputs, constants)
    taken = (budget.weights, budget.activation, budget.non_torch, budget.cuda_graphs)
    left = budget.available_kv
    if inputs.kv_cache_memory_bytes is None:
        left = difference(requested, taken, REMAINDER)
    free = _free(inputs, constants)
    return replace(budget, total=inputs.total, requested=requested, free=free, available_kv=left)
