"""Work that many candidates have in common, done once: starts, sizings and budgets."""

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from threading import Lock
from typing import Final

from service.advisor.budget_inputs import budget_inputs
from service.advisor.engine_start import Start, Starts
from service.advisor.plan_request import Model
from service.advisor.plan_types import Candidate, Refusal
from service.engine_config.resolution import batch_defaults
from service.engine_config.speculation import UnmodelledSpeculation
from service.engines.cases import BatchDefaults
from service.engines.engine_rules import EngineRules
from service.engines.flags import ServeFlags
from service.engines.refusal import EngineRefusal
from service.engines.releases import rules_for
from service.engines.speculative_config import SpeculativeConfig
from service.gpus.capability import ComputeCapability
from service.gpus.gpu_type import GpuType
from service.kv_cache.capacity import CacheSizing
from service.kv_cache.formats import UnmodelledCacheDtype
from service.memory.budget import Basis, Estimate, MemoryBudget
from service.memory.budget_estimator import BudgetInputs, estimate_budget, on_device
from service.memory.device import device_total

UNMODELLED = (UnmodelledCacheDtype, UnmodelledSpeculation)
"""What is not known well enough to answer."""
NO_TOTAL: Final = Estimate(0, 0, 0, Basis.ASSUMED, "")
"""Stands for any device where its total does not matter."""


@dataclass(frozen=True, slots=True)
class StartedCandidate:
    """A start as far as it goes before memory is known, on all GPU types that the release treats alike."""

    start: Start
    sizing: CacheSizing
    backends: tuple[str, ...]
    """Attention backends of the layers that keep a cache, most layers first."""
    doubts: tuple[str, ...]
    """What may go wrong whatever the memory."""
    failures: tuple[EngineRefusal, ...]
    """What goes wrong for sure once the cache is set up, whatever the memory."""


@dataclass(frozen=True, slots=True)
class EndedCandidate:
    """Why there is no start, on all GPU types that the release treats alike."""

    candidate: Candidate
    refusal: EngineRefusal | None

    def on(self, gpu: GpuType) -> Candidate:
        """Return what becomes of the candidate on one of them, which a few refusals name."""
        if self.refusal is None or self.refusal.device in {"", gpu.name}:
            return self.candidate
        return replace(self.candidate, error=Refusal.of(self.refusal.on(gpu.name)))


@dataclass(frozen=True, slots=True)
class DeviceKey:
    """What a GPU type is to the starts of one release."""

    gpu: GpuType
    alike: int
    """Number of what a start depends on: types of one number start alike up to their memory."""
    total: Estimate
    budgets: dict[int, MemoryBudget] = field(default_factory=dict, repr=False)
    """By what starts take."""


@dataclass(frozen=True, slots=True)
class ResidentTerms:
    """What a start takes of the memory, whatever the device's total."""

    inputs: BudgetInputs
    budget: MemoryBudget


@dataclass(frozen=True, slots=True)
class SharedWork:
    """What candidates of one model have in common under one release's rules.

    A start depends on a GPU type by its compute capability and its default batch alone, so that types share
    it; a budget also by the device's total, which changes but what is requested and what is left. No value
    changes once it is there, and each is what working it out anew would give.
    """

    model: Model
    rules: EngineRules
    starts: Starts = field(init=False, repr=False)
    flags: dict[ServeFlags, ServeFlags] = field(default_factory=dict, repr=False)
    """Flags by themselves: one object for equal ones, which is found without comparing."""
    alike: dict[tuple[ComputeCapability | None, BatchDefaults], int] = field(default_factory=dict, repr=False)
    """By what a start depends on of a GPU type, its number."""
    numbers: Iterator[int] = field(default_factory=count, repr=False)
    """Of which no two threads get the same."""
    devices: dict[GpuType, DeviceKey] = field(default_factory=dict, repr=False)
    started: dict[tuple[ServeFlags, int], StartedCandidate | EndedCandidate] = field(
        default_factory=dict, repr=False
    )
    taken: dict[tuple[BudgetInputs, SpeculativeConfig | None], ResidentTerms] = field(
        default_factory=dict, repr=False
    )
    taken_by: dict[tuple[int, bool, int | None], ResidentTerms] = field(default_factory=dict, repr=False)
    """By start, and what else of the question counts."""

    others: dict[EngineRules, "SharedWork"] = field(default_factory=dict, repr=False)
    """The same under other rules, which fixes and levers try."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "starts", Starts(self.model.architecture, self.rules))

    def under(self, rules: EngineRules) -> "SharedWork":
        """Return the work of the same model under other rules."""
        if rules is self.rules:
            return self
        found = self.others.get(rules)
        return found or self.others.setdefault(rules, SharedWork(self.model, rules))

    @property
    def size(self) -> int:
        """How many results are kept."""
        of_devices = sum(1 + len(device.budgets) for device in tuple(self.devices.values()))
        of_others = sum(other.size for other in tuple(self.others.values()))
        return len(self.started) + len(self.taken_by) + of_devices + of_others

    def known(self, flags: ServeFlags) -> ServeFlags:
        """Return the flags that stand for all equal ones: one object, which is found without comparing."""
        return self.flags.setdefault(flags, flags)

    def device(self, gpu: GpuType) -> DeviceKey:
        """Return what a GPU type is to these starts."""
        found = self.devices.get(gpu)
        if found is None:
            kind = (gpu.compute_capability, batch_defaults(self.rules.batches, gpu))
            number = self.alike.setdefault(kind, next(self.numbers))
            found = self.devices[gpu] = DeviceKey(gpu, number, device_total(gpu))
        return found

    def begin(self, flags: ServeFlags, device: DeviceKey) -> StartedCandidate | Candidate:
        """Return the start of these flags on a GPU type, or the candidate where there is none."""
        key = (flags, device.alike)
        found = self.started.get(key)
        if found is None:
            # Another thread may have been faster: budgets go by the start that is kept.
            found = self.started.setdefault(key, self._begin(flags, device.gpu))
        return found.on(device.gpu) if isinstance(found, EndedCandidate) else found

    def _begin(self, flags: ServeFlags, gpu: GpuType) -> StartedCandidate | EndedCandidate:
        try:
            start = self.starts.start(flags, gpu)
        except (EngineRefusal, *UNMODELLED) as failure:
            refusal = failure.with_traceback(None) if isinstance(failure, EngineRefusal) else None
            return EndedCandidate(Candidate.without_start(self.model, self.rules, flags, failure), refusal)
        sizing = self.starts.sizing(flags, start)
        failures = self.starts.failures_when_run(start)
        doubts = (*start.misreadings, *start.fails_when_run, *start.miscounts, *start.unbuilt)
        return StartedCandidate(start, sizing, self.starts.backend_names(start), doubts, failures)

    def budget(
        self, start: Start, flags: ServeFlags, device: DeviceKey, free_memory_bytes: int | None
    ) -> MemoryBudget:
        """Return the memory budget of the rank with the least room."""
        kind = (id(start), device.gpu.unified_memory, free_memory_bytes)
        taken = self.taken_by.get(kind)
        if taken is None:
            taken = self.taken_by[kind] = self._take(start, flags, device.gpu, free_memory_bytes)
        found = device.budgets.get(id(taken))
        if found is None:
            here = replace(taken.inputs, total=device.total)
            found = device.budgets[id(taken)] = on_device(taken.budget, here)
        return found

    def _take(
        self, start: Start, flags: ServeFlags, gpu: GpuType, free_memory_bytes: int | None
    ) -> ResidentTerms:
        inputs = budget_inputs(self.model, start, flags, gpu, free_memory_bytes)
        inputs = replace(inputs, total=NO_TOTAL)
        key = (inputs, flags.speculative_config)
        found = self.taken.get(key)
        if found is None:
            budget = estimate_budget(start.architecture, inputs)
            found = self.taken.setdefault(key, ResidentTerms(inputs, budget))
        return found


class RecentWork:
    """Work of the models and releases that were asked about last, for the questions that come next."""

    def __init__(self, most: int = 4, results: int = 12_000) -> None:
        """Keep the work of ``most`` models at most, each until it holds more than ``results`` results."""
        self._most, self._results = most, results
        self._stored: OrderedDict[tuple[Model, str], SharedWork] = OrderedDict()
        self._lock = Lock()

    def of(self, model: Model, rules: EngineRules) -> SharedWork:
        """Return the work of a model under the rules of a release as it was published, or fresh work."""
        if rules is not rules_for(rules.release):
            return SharedWork(model, rules)
        key = (model, str(rules.release))
        with self._lock:
            work = self._stored.pop(key, None)
            if work is None or work.size > self._results:
                work = SharedWork(model, rules)
            self._stored[key] = work
            if len(self._stored) > self._most:
                self._stored.popitem(last=False)
        return work
