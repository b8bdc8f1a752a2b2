"""A dry run: the engine's steps for one set of flags on one GPU type, in the engine's order.

``start_engine``: configuration, model and attention backends, then block size, cache specs and groups.
``dry_run``: memory budget, checks of memory, startup check and size of the cache, graph capture, admission.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from service.advisor.candidates.engine_start import Start, build_model, check_quantized_online, resolved
from service.advisor.candidates.plan_types import Candidate
from service.advisor.dry_runs.aliases import places_offered
from service.advisor.dry_runs.budget_inputs import budget_inputs, calibrated
from service.advisor.dry_runs.command_doubts import with_command
from service.advisor.dry_runs.engine_steps import (
    UNMODELLED,
    BareRun,
    Configuration,
    EngineSteps,
    FailedStart,
    StartedEngine,
)
from service.advisor.dry_runs.grid import GridOfLength
from service.advisor.dry_runs.outcome import outcome_of
from service.advisor.dry_runs.workload_admission import with_admission
from service.advisor.request.plan_request import Model, PlanRequest, Workload
from service.architecture.model import ModelArchitecture
from service.backends.backend import Backends
from service.changed import in_little_room
from service.checkpoints import checkpoint
from service.engine_config.model_dtype import check_supported
from service.engine_config.parallel_checks import count_refusal, slice_refusal
from service.engines.engine_rules import EngineRules
from service.engines.flags import ServeFlags
from service.engines.refusal import EngineRefusal
from service.gpus.gpu_type import GpuType
from service.kv_cache.capacity import CacheSizing, lay_out
from service.memory.budget_estimator import compiled_before, estimate_budget
from service.memory.budget_types import MemoryBudget, without_cache


def dry_run(
    request: PlanRequest,
    flags: ServeFlags,
    rules: EngineRules,
    gpu: GpuType,
    steps: EngineSteps | None = None,
) -> Candidate:
    """Return what the engine does with these flags on this GPU type.

    ``steps`` are those of the request's model under these rules; without them every step is calculated.
    """
    checkpoint()
    steps = steps or PlainSteps(request.model, rules)
    if gpu.is_slice and (refusal := slice_refusal(flags)) is not None:
        return FailedStart.of(request.model, rules, flags, refusal).on(gpu)
    if (refusal := count_refusal(flags, request.count_of(gpu))) is not None:
        return FailedStart.of(request.model, rules, flags, refusal).on(gpu)
    started = steps.start(flags, gpu)
    if isinstance(started, FailedStart):
        return with_command(started.on(gpu), request.command, gpu.compute_capability)
    budget = steps.budget(started, gpu, request.free_memory_bytes)
    budget = compiled_before(budget) if request.compiled_before else budget
    budget = calibrated(request, budget, started.start, flags, gpu)
    candidate = with_admission(_with_memory(started, budget, steps), started, request.workload)
    return with_command(candidate, request.command, gpu.compute_capability)


def dry_runs(request: PlanRequest, asked: GridOfLength, gpu: GpuType, steps: EngineSteps) -> list[Candidate]:
    """Return the dry runs of a grid that are listed; what they have in common is found once."""
    count = request.count_of(gpu)
    refused = count is not None and any(count_refusal(flags, count) for flags in asked.flags)
    alone = request.calibration or request.command is not None or request.compiled_before
    if refused or alone or gpu.is_slice:
        planned = [dry_run(request, flags, steps.rules, gpu, steps) for flags in asked.flags]
        return [planned[place] for place in places_offered(asked, planned)]
    found = []
    for run in steps.runs(asked, gpu, request.free_memory_bytes):
        checkpoint()
        found.append(_with_workload(run, request.workload))
    return found


def bare_run(flags: ServeFlags, gpu: GpuType, free_memory_bytes: int | None, steps: EngineSteps) -> BareRun:
    """Return what the engine does with these flags on this GPU type, whatever else a request says."""
    checkpoint()
    started = steps.start(flags, gpu)
    if isinstance(started, FailedStart):
        return BareRun(started.on(gpu), started)
    budget = steps.budget(started, gpu, free_memory_bytes)
    return BareRun(_with_memory(started, budget, steps), started)


def _with_memory(started: StartedEngine, budget: MemoryBudget, steps: EngineSteps) -> Candidate:
    if started.start.layout.caches_nothing:
        budget = without_cache(budget)
    return steps.candidate(started, budget)


def _with_workload(run: BareRun, workload: Workload | None) -> Candidate:
    if workload is None or isinstance(run.started, FailedStart):
        return run.candidate
    return with_admission(run.candidate, run.started, workload)


def start_engine(flags: ServeFlags, gpu: GpuType, steps: EngineSteps) -> StartedEngine:
    """Return the start up to the cache layout, which is as far as the engine goes before it needs memory.

    Raises:
        EngineRefusal: the engine refuses to start.
        UnmodelledSpeculation: what the engine stores for draft tokens is not known.
        UnmodelledCacheDtype: what the engine stores in this cache dtype is not known.
    """
    configuration = steps.configure(flags, gpu)
    check_supported(configuration.engine_config.dtype, gpu)
    check_quantized_online(configuration.architecture, configuration.engine_config, flags)
    backends = steps.build_model(configuration)
    sizing = steps.lay_out(configuration, backends)
    engine_config = in_little_room(configuration.engine_config)  # copied for each length
    start = Start(configuration.architecture, engine_config, backends, sizing.layout)
    return StartedEngine.of(flags, start, sizing)


def start_or_failure(flags: ServeFlags, gpu: GpuType, steps: EngineSteps) -> StartedEngine | FailedStart:
    """Return the start up to the cache layout, or why there is none."""
    try:
        return start_engine(flags, gpu, steps)
    except (EngineRefusal, *UNMODELLED) as failure:
        return FailedStart.of(steps.model, steps.rules, flags, failure)


def dry_start(architecture: ModelArchitecture, flags: ServeFlags, rules: EngineRules, gpu: GpuType) -> Start:
    """Return the start of a model up to its cache layout.

    Raises:
        EngineRefusal: the engine refuses to start.
        UnmodelledSpeculation: what the engine stores for draft tokens is not known.
        UnmodelledCacheDtype: what the engine stores in this cache dtype is not known.
    """
    model = Model(architecture.class_name, None, "inline", architecture)
    return start_engine(flags, gpu, PlainSteps(model, rules)).start


@dataclass(frozen=True, slots=True)
class PlainSteps:
    """Steps that calculate every result."""

    model: Model
    rules: EngineRules

    def under(self, rules: EngineRules) -> "PlainSteps":
        """Return the steps of the same model under other rules."""
        return PlainSteps(self.model, rules)

    def of(self, model: Model) -> "PlainSteps":
        """Return the steps of a changed model under the same rules."""
        return PlainSteps(model, self.rules)

    def start(self, flags: ServeFlags, gpu: GpuType) -> StartedEngine | FailedStart:
        """Return the start up to the cache layout, or why there is none."""
        return start_or_failure(flags, gpu, self)

    def configure(self, flags: ServeFlags, gpu: GpuType) -> Configuration:
        """Return the flags with every default filled in."""
        return Configuration(flags, *resolved(self.model.architecture, flags, self.rules, gpu))

    def build_model(self, configuration: Configuration) -> Backends:
        """Return the attention backend of each layer."""
        return build_model(configuration.architecture, configuration.engine_config)

    def lay_out(self, configuration: Configuration, backends: Backends) -> CacheSizing:
        """Lay out the cache and return what turns an amount of memory into blocks."""
        engine_config = configuration.engine_config
        return CacheSizing.of(lay_out(configuration.architecture, engine_config, backends), engine_config)

    def budget(self, started: StartedEngine, gpu: GpuType, free_memory_bytes: int | None) -> MemoryBudget:
        """Return the memory budget of the rank with the least memory left for the cache."""
        inputs = budget_inputs(self.model, started.start, started.flags, gpu, free_memory_bytes)
        return estimate_budget(started.start.architecture, inputs)

    def candidate(self, started: StartedEngine, budget: MemoryBudget) -> Candidate:
        """Return what the engine does with its memory."""
        return candidate_of(self.model, self.rules, started, budget)

    def runs(self, asked: GridOfLength, gpu: GpuType, free_memory_bytes: int | None) -> Iterable[BareRun]:
        """Return the runs of a grid that are listed, on one GPU type."""
        runs = [bare_run(flags, gpu, free_memory_bytes, self) for flags in asked.flags]
        return [runs[place] for place in places_offered(asked, [run.candidate for run in runs])]


def candidate_of(model: Model, rules: EngineRules, started: StartedEngine, budget: MemoryBudget) -> Candidate:
    """Return what a started engine does with its memory, whatever it is to serve."""
    flags, outcome = started.flags, outcome_of(started, budget, model.architecture, rules)
    return Candidate(
        model=model,
        rules=rules,
        flags=flags,
        kv_cache_dtype=flags.kv_cache_dtype or "auto",
        resolved_kv_cache_dtype=started.stored_format,
        tensor_parallel_size=flags.tensor_parallel_size or 1,
        pipeline_parallel_size=flags.pipeline_parallel_size,
        block_size=started.start.layout.block_size,
        attention_backends=started.backends,
        verdict=outcome.verdict,
        error=outcome.error,
        memory=budget,
        kv_cache=outcome.cache,
        admission=None,
        doubts=outcome.doubts,
        fails=outcome.fails,
        start=started.start,
    )
