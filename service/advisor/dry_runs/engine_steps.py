"""The steps of one start of the engine, as an interface: a step calculates its result or looks it up."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Final, NamedTuple, Protocol, TypeAlias

from service.advisor.candidates.engine_start import Start
from service.advisor.candidates.plan_types import Candidate
from service.advisor.candidates.refusal import Refusal
from service.advisor.dry_runs.grid import GridOfLength
from service.advisor.request.plan_request import Model
from service.architecture.model import ModelArchitecture
from service.backends.backend import Backends
from service.changed import changed
from service.engine_config.engine_config import EngineConfig
from service.engine_config.scheduling_checks import UnmodelledEngine
from service.engine_config.speculation import UnmodelledSpeculation
from service.engines.engine_rules import EngineRules
from service.engines.flags import ServeFlags
from service.engines.refusal import EngineRefusal
from service.gpus.gpu_type import GpuType
from service.kv_cache.admission import RequestAdmission, admit
from service.kv_cache.capacity import CacheSizing
from service.kv_cache.formats import UnmodelledCacheDtype
from service.memory.budget_types import MemoryBudget

UNMODELLED = (UnmodelledCacheDtype, UnmodelledEngine, UnmodelledSpeculation)
"""Raised where the engine may start, but what it does is not modelled."""


WORKLOADS: Final = 8
"""Workloads of which each start stores what a request takes."""

Admit: TypeAlias = Callable[[int, int, int], RequestAdmission]
"""Returns what a request takes, by the maximum length, its prompt and its answer in tokens."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """The result of the first step: the flags with every default filled in, and the model that they build."""

    flags: ServeFlags
    architecture: ModelArchitecture
    """As the release reads the config, with the draft model if there is one."""
    engine_config: EngineConfig


@dataclass(frozen=True, eq=False)
class StartedEngine:
    """A start up to its cache layout, and what follows from it for any amount of memory.

    It holds for all GPU types with which the release starts alike. Two instances are equal only where they
    are one object, so that an instance can be a key.
    """

    flags: ServeFlags
    start: Start
    sizing: CacheSizing
    backends: tuple[str, ...]
    """Names of the attention backends, the one of most layers first."""
    stored_format: str
    """Cache dtype that most attention layers store."""
    doubts: tuple[str, ...]
    """What may go wrong, whatever the memory."""
    failures: tuple[EngineRefusal, ...]
    """What is sure to fail after the cache is set up, whatever the memory."""
    admit: Admit
    """``admit`` of this start; what it returned for the last workloads is stored."""
    taking: object = field(default_factory=object)
    """One object for all starts that take the same of any device's memory."""
    but_length: object = field(default_factory=object)
    """One object for all starts that differ in their maximum length, and what their requests take, alone."""

    @classmethod
    def of(cls, flags: ServeFlags, start: Start, sizing: CacheSizing) -> "StartedEngine":
        """Return a start with what follows from it."""
        return cls(
            flags=flags,
            start=start,
            sizing=sizing,
            backends=start.backends.names,
            stored_format=start.stored_format,
            doubts=(
                *start.misreadings,
                *start.fails_when_run,
                *start.miscounts,
                *start.unbuilt,
                *start.unknown_kernels,
            ),
            failures=start.failures_when_run,
            admit=lru_cache(maxsize=WORKLOADS)(partial(admit, start.layout.groups, start.engine_config)),
        )

    def with_length(self, flags: ServeFlags, max_model_len: int, *, takes_alike: bool) -> "StartedEngine":
        """Return the start of flags with another length, where nothing but the requests depends on it.

        ``takes_alike``: the memory that the start takes does not depend on it either.
        """
        if flags is self.flags:
            return self
        start = self.start.with_length(max_model_len)
        return changed(
            self,
            flags=flags,
            start=start,
            sizing=self.sizing.of_length(start.engine_config),
            taking=self.taking if takes_alike else object(),
        )


@dataclass(frozen=True, slots=True)
class FailedStart:
    """A start that ends before its memory is known, on all GPU types with which the release starts alike."""

    candidate: Candidate
    refusal: EngineRefusal | None
    """``None`` where the engine may start, but what it does is not modelled."""

    @classmethod
    def of(cls, model: Model, rules: EngineRules, flags: ServeFlags, failure: Exception) -> "FailedStart":
        """Return the failed start of an exception, which loses its traceback."""
        refusal = failure.with_traceback(None) if isinstance(failure, EngineRefusal) else None
        return cls(Candidate.without_start(model, rules, flags, failure), refusal)

    def with_length(self, flags: ServeFlags) -> "FailedStart":
        """Return the failed start of flags with another length, on which the failure does not depend."""
        if flags is self.candidate.flags:
            return self
        return FailedStart(changed(self.candidate, flags=flags), self.refusal)

    def on(self, gpu: GpuType) -> Candidate:
        """Return the candidate on one of the GPU types, whose name a few refusals contain."""
        if self.refusal is None or self.refusal.device in {"", gpu.name}:
            return self.candidate
        return changed(self.candidate, error=Refusal.of(self.refusal.on(gpu.name)))


class BareRun(NamedTuple):
    """A dry run without what a request adds to the start: its workload, its command, what was measured."""

    candidate: Candidate
    started: StartedEngine | FailedStart
    """The start, or that of flags with another length that differs in its requests alone."""


class EngineSteps(Protocol):
    """The steps of the starts of one model under one release's rules.

    ``dry_run`` calls them in the engine's order. ``PlainSteps`` calculates each result; ``CachedSteps`` looks
    it up first. Both give equal results.
    """

    @property
    def model(self) -> Model:
        """The model that is started."""

    @property
    def rules(self) -> EngineRules:
        """The release's rules, patches included."""

    def under(self, rules: EngineRules) -> "EngineSteps":
        """Return the steps of the same model under other rules."""

    def of(self, model: Model) -> "EngineSteps":
        """Return the steps of a changed model under the same rules."""

    def start(self, flags: ServeFlags, gpu: GpuType) -> StartedEngine | FailedStart:
        """Return the start up to the cache layout, or why there is none: the next three steps in order."""

    def configure(self, flags: ServeFlags, gpu: GpuType) -> Configuration:
        """Return the flags with every default filled in.

        Raises:
            EngineRefusal: the engine refuses the flags or the model's config.
            UnmodelledSpeculation: what the engine would store for draft tokens is not known.
        """

    def build_model(self, configuration: Configuration) -> Backends:
        """Return the attention backend of each layer, after the checks of the model's own code.

        Raises:
            EngineRefusal: stages ``model``, ``backend`` and ``dtype``.
        """

    def lay_out(self, configuration: Configuration, backends: Backends) -> CacheSizing:
        """Lay out the cache: block size, specs and groups. Return what turns an amount of memory into blocks.

        Raises:
            EngineRefusal: stages ``block_size``, ``page_size`` and ``grouping``.
        """

    def budget(self, started: StartedEngine, gpu: GpuType, free_memory_bytes: int | None) -> MemoryBudget:
        """Return the memory budget of the rank with the least memory left for the cache.

        ``free_memory_bytes`` is what is free on each GPU before the start; ``None`` to estimate it.
        """

    def candidate(self, started: StartedEngine, budget: MemoryBudget) -> Candidate:
        """Return what the engine does with its memory: its checks, its cache, and the capture of graphs."""

    def runs(self, asked: GridOfLength, gpu: GpuType, free_memory_bytes: int | None) -> Iterable[BareRun]:
        """Return the runs of a grid that are listed, on one GPU type."""
