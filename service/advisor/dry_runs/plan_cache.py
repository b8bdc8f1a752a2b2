"""A cache of the engine's steps: results that many candidates, and the next requests, have in common.

A step's result is stored by what it depends on, which is less than the flags and the GPU type. GPU types with
one compute capability and one default batch share a start, and starts that differ only in what the memory
budget ignores share a budget. Starts that differ in their length alone are made of one another, as candidates
are where a request of either length surely fits. A stored result equals what ``PlainSteps`` calculates.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache, partial
from threading import Lock
from typing import Final

from service.advisor.candidates.engine_start import before_backends, build_model, read_by_release
from service.advisor.candidates.plan_types import Candidate
from service.advisor.dry_runs.budget_inputs import shared_inputs
from service.advisor.dry_runs.dry_run import bare_run, candidate_of, start_or_failure
from service.advisor.dry_runs.engine_steps import (
    UNMODELLED,
    BareRun,
    Configuration,
    FailedStart,
    StartedEngine,
)
from service.advisor.dry_runs.grid import GridOfLength
from service.advisor.dry_runs.lengths_asked_for import LengthsAskedFor
from service.advisor.dry_runs.memo import LastResults, Memo, Numbers
from service.advisor.dry_runs.outcome import is_sure_to_fit
from service.advisor.dry_runs.rounds import Round, RunOfOneLength, StartOfAnyLength, of_length
from service.advisor.dry_runs.step_keys import defaults_of_device, model_key, paging_of
from service.advisor.request.plan_request import Model
from service.architecture.model import ModelArchitecture
from service.backends.assignment import assign_backends, backend_inputs
from service.backends.backend import Backends
from service.engine_config.engine_config import EngineConfig
from service.engine_config.request_limits import (
    RequestLimits,
    batch_defaults,
    limits_inputs,
    only_limits_read_the_length,
    resolve_length,
)
from service.engine_config.resolution import DeviceTerms, configure
from service.engine_config.runner import as_run, runner_inputs
from service.engines.cases import BatchDefaults
from service.engines.engine_rules import EngineRules
from service.engines.flags import ServeFlags
from service.engines.refusal import EngineRefusal
from service.engines.releases import rules_for
from service.gpus.gpu_type import GpuType
from service.kv_cache.cache_layout import CacheLayout
from service.kv_cache.capacity import CacheSizing, lay_out
from service.kv_cache.startup_check import Taken, stored_requests
from service.memory.budget_estimator import estimate_budget, on_device
from service.memory.budget_inputs import BudgetInputs
from service.memory.budget_types import MemoryBudget
from service.memory.device import device_total
from service.memory.profile_run import reads_length

CHANGED_MODELS: Final = 2
"""Changed models whose steps are stored. One is the model with 4-bit weights, of which every refusal for want
of memory speaks."""
LENGTHS: Final = 16
"""Lengths of which the limits of a start are stored."""
ROUNDS: Final = 160
"""The last rounds that are stored: a question for all GPU types has one of each, which are 71."""


@dataclass(frozen=True, slots=True, eq=False)
class MemoryTaken:
    """What a start takes of the memory of a device, whatever its total. An instance can be a key."""

    inputs: BudgetInputs
    budget: MemoryBudget
    """For a device without memory; ``on_device`` makes it that of a real one."""


class CachedSteps:
    """``EngineSteps`` that look up a result before they calculate it."""

    def __init__(self, model: Model, rules: EngineRules, lengths: LengthsAskedFor | None = None) -> None:
        self.model, self.rules = model, rules
        self._lengths = lengths or LengthsAskedFor()
        self._own = object()
        self._others: dict[EngineRules, CachedSteps] = {}
        self._of_models = LastResults[CachedSteps](CHANGED_MODELS)
        self._numbers = Numbers()
        self._devices = Memo[int]()
        self._starts_of_lengths = Memo[StartedEngine | FailedStart]()
        self._of_any_length = Memo[StartOfAnyLength]()
        self._limits = Memo[Callable[[int | None], RequestLimits]]()
        self._read = Memo[ModelArchitecture]()
        self._terms = Memo[DeviceTerms]()
        self._configured = Memo[EngineConfig]()
        self._assigned = Memo[Backends]()
        self._built = Memo[Backends]()
        self._pagings = Memo[int]()
        self._layouts = Memo[CacheLayout]()
        self._requests = Memo[Taken]()
        self._sizings = Memo[CacheSizing]()
        self._taken = Memo[MemoryTaken]()
        self._taken_by = Memo[MemoryTaken]()
        self._on_device = Memo[MemoryBudget]()
        self._budgets = Memo[MemoryBudget]()
        self._candidates = Memo[Candidate]()
        self._rounds = LastResults[Round](ROUNDS)

    @property
    def size(self) -> int:
        """How many results are stored whose number grows with the requests."""
        starts = len(self._of_any_length) + len(self._starts_of_lengths)
        own = starts + len(self._taken_by) + len(self._devices) + len(self._budgets)
        others = (*self._others.values(), *self._of_models.results)
        return own + sum(other.size for other in others)

    def under(self, rules: EngineRules) -> "CachedSteps":
        """Return the steps of the same model under other rules, which fixes and levers try."""
        if rules is self.rules:
            return self
        found = self._others.get(rules)
        return found or self._others.setdefault(rules, CachedSteps(self.model, rules, self._lengths))

    def of(self, model: Model) -> "CachedSteps":
        """Return the steps of a changed model under the same rules, which notes try."""
        return self._of_models.of(model, lambda: CachedSteps(model, self.rules, self._lengths))

    def start(self, flags: ServeFlags, gpu: GpuType) -> StartedEngine | FailedStart:
        """Return the start, shared by all GPU types with equal compute capability and default batch."""
        key = (self._own, flags, self._device(gpu))
        return self._lengths.starts.of(key, lambda: self._start(flags, gpu))

    def _start(self, flags: ServeFlags, gpu: GpuType) -> StartedEngine | FailedStart:
        """Return a start, made of one with another length where they differ in that alone."""
        try:
            alike = self.start_of_any_length(flags, gpu)
            limits = None if alike.limits is None else alike.limits(flags.max_model_len)
        except (EngineRefusal, *UNMODELLED) as failure:
            return FailedStart.of(self.model, self.rules, flags, failure)
        decides = flags.max_model_len if limits is None else limits.but_length
        found = self._starts_of_lengths.of((alike, decides), lambda: start_or_failure(flags, gpu, self))
        if limits is None:
            return found
        if isinstance(found, FailedStart):
            return found.with_length(flags)
        return found.with_length(flags, limits.max_model_len, takes_alike=alike.takes_alike)

    def start_of_any_length(self, flags: ServeFlags, gpu: GpuType) -> StartOfAnyLength:
        """Return what a start has in common with those of other lengths.

        Raises:
            EngineRefusal: the release has no such model.
            UnmodelledEngine: what this runner does is not known.
        """
        key = (flags.but_length, self._device(gpu))
        return self._of_any_length.of(key, lambda: self._alike(flags, gpu))

    def _alike(self, flags: ServeFlags, gpu: GpuType) -> StartOfAnyLength:
        """Return what a start has in common with those of other lengths.

        Raises:
            EngineRefusal: the release has no such model.
            UnmodelledEngine: what this runner does is not known.
        """
        read, defaults = self._read_for(flags), self._terms_on(flags, gpu).batch
        if not only_limits_read_the_length(read, flags):
            return StartOfAnyLength(None, takes_alike=False)
        inputs = (limits_inputs(flags), runner_inputs(flags), defaults)
        limits = self._limits.of(
            inputs, lambda: lru_cache(LENGTHS)(partial(_limited, read, self.rules, flags, defaults))
        )
        return StartOfAnyLength(limits, takes_alike=not reads_length(read))

    def _read_for(self, flags: ServeFlags) -> ModelArchitecture:
        """Return the model as the release reads its config, and as the runner of a start builds it.

        Raises:
            EngineRefusal: it cannot.
            UnmodelledEngine: what this runner does is not known.
        """
        rules = self.rules
        return self._read.of(
            runner_inputs(flags),
            lambda: as_run(read_by_release(self.model.architecture, rules), flags, rules.pooling),
        )

    def _terms_on(self, flags: ServeFlags, gpu: GpuType) -> DeviceTerms:
        read, rules = self._read_for(flags), self.rules
        key = (flags.dtype, flags.quantization, runner_inputs(flags), gpu)
        return self._terms.of(key, lambda: DeviceTerms.of(read, flags, rules, gpu))

    def _device(self, gpu: GpuType) -> int:
        """Return one number for all GPU types on which the release starts alike."""
        return self._devices.of(
            gpu,
            lambda: self._numbers.of((gpu.compute_capability, batch_defaults(self.rules.batches, gpu))),
        )

    def configure(self, flags: ServeFlags, gpu: GpuType) -> Configuration:
        """Return the configuration, shared by all GPU types with equal terms."""
        read, rules, terms = self._read_for(flags), self.rules, self._terms_on(flags, gpu)
        configured = self._configured.of((flags, terms), lambda: configure(read, flags, rules, terms))
        configured = configured.on(terms.name, terms.compute_capability)
        return Configuration(flags, *before_backends(read, configured))

    def build_model(self, configuration: Configuration) -> Backends:
        """Return the backends, shared by all batches, and by all lengths where no state has the length."""
        capability = configuration.engine_config.compute_capability
        return self._built.of(
            (model_key(configuration), capability),
            lambda: build_model(configuration.architecture, configuration.engine_config, self._assign),
        )

    def _assign(self, architecture: ModelArchitecture, engine_config: EngineConfig) -> Backends:
        drafted = (
            None
            if engine_config.speculation is None
            else (engine_config.speculation, engine_config.tensor_parallel_size)
        )
        key = (drafted, backend_inputs(architecture, engine_config))
        return self._assigned.of(key, lambda: assign_backends(architecture, engine_config))

    def lay_out(self, configuration: Configuration, backends: Backends) -> CacheSizing:
        """Return the sizing of a layout, shared by all compute capabilities whose backends page alike."""
        architecture, engine_config = configuration.architecture, configuration.engine_config
        paging = self._pagings.of(
            (backends, engine_config.compute_capability),
            lambda: self._numbers.of(paging_of(backends, engine_config)),
        )
        layout = self._layouts.of(
            (model_key(configuration), paging), lambda: lay_out(architecture, engine_config, backends)
        )
        key = (configuration.flags, paging, *defaults_of_device(engine_config))
        return self._sizings.of(key, lambda: self._sizing(layout, engine_config))

    def _sizing(self, layout: CacheLayout, engine_config: EngineConfig) -> CacheSizing:
        """Return the sizing of a layout, whose requests those of other layouts may equal."""
        key = (layout.slots, engine_config.demand(0))
        return CacheSizing.of(
            layout,
            engine_config,
            self._requests.of(key, lambda: stored_requests(layout, engine_config)),
        )

    def budget(self, started: StartedEngine, gpu: GpuType, free_memory_bytes: int | None) -> MemoryBudget:
        """Return the budget; devices share what a start takes, and differ in what is left of their total."""
        return self._budgets.of(
            (started.taking, gpu, free_memory_bytes), lambda: self._budget(started, gpu, free_memory_bytes)
        )

    def _budget(self, started: StartedEngine, gpu: GpuType, free_memory_bytes: int | None) -> MemoryBudget:
        taken = self._taken_by.of(
            (started.taking, gpu.unified_memory, gpu.joined_gpus, free_memory_bytes),
            lambda: self._take(started, gpu, free_memory_bytes),
        )
        return self._on_device.of(
            (taken, gpu), lambda: on_device(taken.budget, taken.inputs, device_total(gpu))
        )

    def _take(self, started: StartedEngine, gpu: GpuType, free_memory_bytes: int | None) -> MemoryTaken:
        start, flags = started.start, started.flags
        inputs = shared_inputs(self.model, start, flags, gpu, free_memory_bytes)
        key = (inputs, flags.speculative_config, start.architecture.pooling)
        return self._taken.of(key, lambda: MemoryTaken(inputs, estimate_budget(start.architecture, inputs)))

    def candidate(self, started: StartedEngine, budget: MemoryBudget) -> Candidate:
        """Return the candidate, made of one with another length where a request of either is sure to fit."""
        found = self._candidates.get((started.but_length, budget))
        if found is not None and found.start is started.start:
            return found
        sure = is_sure_to_fit(started, budget)
        if sure and found is not None:
            return of_length(found, started.flags, started.start, started.sizing)

        def calculate() -> Candidate:
            return candidate_of(self.model, self.rules, started, budget)

        if sure:
            return self._candidates.of((started.but_length, budget), calculate)
        key = (started.but_length, budget, started.flags.max_model_len)
        return self._lengths.candidates.of(key, calculate)

    def runs(self, asked: GridOfLength, gpu: GpuType, free_memory_bytes: int | None) -> Iterable[BareRun]:
        """Return the runs of a grid, which follow from those of another length where there are any."""
        planning = PlanningOn(self, gpu, free_memory_bytes)
        found = self._rounds.of((asked.grid, gpu, free_memory_bytes), lambda: Round(asked, planning))
        return found.of_length(asked, planning)


@dataclass(frozen=True, slots=True)
class PlanningOn:
    """``Planning`` by cached steps on one GPU type."""

    steps: CachedSteps
    gpu: GpuType
    free_memory_bytes: int | None

    def run(self, flags: ServeFlags) -> BareRun:
        """Return the run of flags."""
        return bare_run(flags, self.gpu, self.free_memory_bytes, self.steps)

    def known_by(self, run: BareRun) -> RunOfOneLength:
        """Return what is known of other lengths by a run."""
        try:
            return RunOfOneLength.of(run, self.steps.start_of_any_length(run.candidate.flags, self.gpu))
        except (EngineRefusal, *UNMODELLED):  # with these flags the release starts with no length
            return RunOfOneLength(run, None)


def _limited(
    read: ModelArchitecture,
    rules: EngineRules,
    flags: ServeFlags,
    defaults: BatchDefaults,
    length: int | None,
) -> RequestLimits:
    """Return the limits of flags with some length; a function, since what it knows is stored with it.

    Raises:
        EngineRefusal: the release has no such length.
    """
    flags = flags.of_length(length)
    return RequestLimits.of(read, flags, rules, defaults, resolve_length(read, flags, rules))


class PlanCache:
    """The cached steps of the models and releases of the last requests, for the requests that come next."""

    def __init__(self, models: int = 4, results: int = 12_000) -> None:
        """Store the steps of ``models`` models at most, each until it holds more than ``results`` results."""
        self._most, self._results = models, results
        self._stored: OrderedDict[tuple[Model, str], CachedSteps] = OrderedDict()
        self._lock = Lock()
        self._lengths = LengthsAskedFor()

    def steps(self, model: Model, rules: EngineRules) -> CachedSteps:
        """Return the steps of a model under the rules of a release, or new ones for rules with patches."""
        if rules is not rules_for(rules.release):
            return CachedSteps(model, rules, self._lengths)
        key = (model, str(rules.release))
        with self._lock:
            steps = self._stored.pop(key, None)
            if steps is None or steps.size > self._results:
                steps = CachedSteps(model, rules, self._lengths)
            self._stored[key] = steps
            if len(self._stored) > self._most:
                self._stored.popitem(last=False)
        return steps
