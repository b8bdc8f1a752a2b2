"""Work that many candidates have in common, done once: starts, sizings and budgets."""

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Final, TypeAlias

from service.advisor.memory import budget_inputs
from service.advisor.request import Model
from service.advisor.start import Start, dry_start
from service.backends.assignment import count_backends
from service.engines.flags import ServeFlags
from service.engines.refusal import EngineRefusal
from service.engines.releases import rules_for
from service.engines.rules import EngineRules
from service.gpus.gpu_type import GpuType
from service.kv_cache.capacity import CacheSizing
from service.kv_cache.formats import UnmodelledCacheDtype
from service.launch.resolution import batch_defaults
from service.launch.speculation import UnmodelledSpeculation
from service.memory.budget import Basis, Estimate, MemoryBudget
from service.memory.device import device_total
from service.memory.estimation import BudgetInputs, estimate_budget, on_device

UNMODELLED = (UnmodelledCacheDtype, UnmodelledSpeculation)
"""What is not known well enough to answer."""
NO_TOTAL: Final = Estimate(0, 0, 0, Basis.ASSUMED, "")
"""Stands for any device where its total does not matter."""
Failure: TypeAlias = EngineRefusal | UnmodelledCacheDtype | UnmodelledSpeculation


@dataclass(frozen=True, slots=True)
class Begun:
    """A start as far as it goes before memory is known, on all GPU types that the release treats alike."""

    device: str
    """The GPU type that it was worked out for."""
    start: Start | None
    sizing: CacheSizing | None
    failure: Failure | None
    """Why there is no start."""
    backends: tuple[str, ...] = ()
    """Attention backends of the layers that keep a cache, most layers first."""
    doubts: tuple[str, ...] = ()
    """What may go wrong whatever the memory."""


@dataclass(frozen=True, slots=True)
class SharedWork:
    """What candidates of one model have in common under one release's rules.

    A start depends on a GPU type by its compute capability and its default batch alone, so that types share
    it; a budget also by the device's total, which changes but what is requested and what is left. No value
    changes once it is there, and each is what working it out anew would give.
    """

    model: Model
    rules: EngineRules
    flags: dict[ServeFlags, ServeFlags] = field(default_factory=dict, repr=False)
    """Flags by themselves: one object for equal ones, which is found without comparing."""
    alike: dict[Hashable, Hashable] = field(default_factory=dict, repr=False)
    """By device, what a start depends on."""
    begun: dict[Hashable, Begun] = field(default_factory=dict, repr=False)
    taken: dict[Hashable, MemoryBudget] = field(default_factory=dict, repr=False)
    inputs: dict[Hashable, BudgetInputs] = field(default_factory=dict, repr=False)
    budgets: dict[Hashable, MemoryBudget] = field(default_factory=dict, repr=False)

    def under(self, rules: EngineRules) -> "SharedWork":
        """Return the work of the same model under other rules."""
        return self if rules is self.rules else SharedWork(self.model, rules)

    def known(self, flags: ServeFlags) -> ServeFlags:
        """Return the flags that stand for all equal ones."""
        return self.flags.setdefault(flags, flags)

    def begin(self, flags: ServeFlags, gpu: GpuType) -> Begun:
        """Return the start of these flags on a GPU type, or why there is none."""
        device = (gpu.name, gpu.memory_bytes, gpu.compute_capability)
        alike = self.alike.get(device)
        if alike is None:
            alike = self.alike[device] = (gpu.compute_capability, batch_defaults(self.rules, gpu))
        key = (flags, alike)
        found = self.begun.get(key)
        if found is None:
            # Another thread may have been faster: budgets go by the start that is kept.
            found = self.begun.setdefault(key, self._begin(flags, gpu))
        failure = _named(found, gpu)
        return found if failure is found.failure else replace(found, failure=failure)

    def _begin(self, flags: ServeFlags, gpu: GpuType) -> Begun:
        try:
            start = dry_start(self.model.architecture, flags, self.rules, gpu)
        except (EngineRefusal, *UNMODELLED) as failure:
            return Begun(gpu.name, None, None, failure.with_traceback(None))
        sizing = CacheSizing.of(start.layout, start.serving)
        doubts = (*start.miscounts(start.architecture), *start.unbuilt, *start.fails_when_run)
        return Begun(gpu.name, start, sizing, None, count_backends(start.backends), doubts)

    def budget(
        self, start: Start, flags: ServeFlags, gpu: GpuType, free_memory_bytes: int | None
    ) -> MemoryBudget:
        """Return the memory budget of the rank with the least room."""
        kind = (id(start), gpu.unified_memory, free_memory_bytes)
        sizes = (gpu.memory_bytes, gpu.memory_low_bytes, gpu.memory_high_bytes)
        key = (kind, sizes, gpu.memory_basis, gpu.source)
        found = self.budgets.get(key)
        if found is None:
            inputs = self.inputs.get(kind)
            if inputs is None:
                inputs = budget_inputs(self.model, start, flags, gpu, free_memory_bytes)
                inputs = self.inputs.setdefault(kind, replace(inputs, total=NO_TOTAL))
            found = self.budgets[key] = self._budget(start, flags, inputs, device_total(gpu))
        return found

    def _budget(self, start: Start, flags: ServeFlags, inputs: BudgetInputs, total: Estimate) -> MemoryBudget:
        key = (inputs, flags.speculative_config)
        here = replace(inputs, total=total)
        found = self.taken.get(key)
        if found is None:
            found = self.taken[key] = estimate_budget(start.architecture, here)
        return found if found.total == total else on_device(found, here)


def _named(begun: Begun, gpu: GpuType) -> Failure | None:
    """Return a failure in the words for another device: a few refusals name it."""
    failure = begun.failure
    if isinstance(failure, EngineRefusal) and begun.device != gpu.name and begun.device in failure.message:
        return failure.reworded(failure.message.replace(begun.device, gpu.name))
    return failure


class RecentWork:
    """Work of the models and releases that were asked about last, for the questions that come next."""

    def __init__(self, most: int = 2, starts: int = 3000) -> None:
        """Keep the work of ``most`` models at most, each until it holds more than ``starts`` starts."""
        self._most, self._starts = most, starts
        self._kept: OrderedDict[Hashable, SharedWork] = OrderedDict()
        self._lock = Lock()

    def of(self, model: Model, rules: EngineRules) -> SharedWork:
        """Return the work of a model under the rules of a release as it was published, or fresh work."""
        if rules is not rules_for(rules.release):
            return SharedWork(model, rules)
        key = (model, rules.release)
        with self._lock:
            work = self._kept.pop(key, None)
            if work is None or len(work.begun) > self._starts:
                work = SharedWork(model, rules)
            self._kept[key] = work
            if len(self._kept) > self._most:
                self._kept.popitem(last=False)
        return work
