"""The types of a plan: every candidate with its verdict, best first."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self

from service.advisor.candidates.admission import Admission
from service.advisor.candidates.advice import Step
from service.advisor.candidates.command import serve_command, serve_words, variables_of
from service.advisor.candidates.engine_start import Start
from service.advisor.candidates.lever import Lever
from service.advisor.candidates.prefix_reuse import PrefixReuse, prefix_reuse
from service.advisor.candidates.refusal import Refusal
from service.advisor.candidates.runtime_headroom import (
    first_start_takes_more,
    little_room_for_steps,
    no_room_for_one_request,
)
from service.advisor.candidates.verdict import Verdict
from service.advisor.candidates.warnings import environment_warnings, left_out_warnings, notes, warnings
from service.advisor.request.plan_request import EngineChoice, Model, Workload
from service.engines.cache_quality import CacheQuality, quality_of
from service.engines.engine_rules import EngineRules
from service.engines.flags import ServeFlags
from service.engines.refusal import EngineRefusal
from service.gpus.gpu_type import GpuType
from service.kv_cache.kv_cache import KvCache
from service.kv_cache.waste import Waste, waste_of
from service.launch_command.command_reading import CommandReading
from service.launch_command.flags.carried_arguments import NOTHING_CARRIED, CarriedArguments
from service.memory.budget_types import MemoryBudget
from service.speed.prices import Cost
from service.speed.serving_speed import Speed


@dataclass(frozen=True)
class Candidate:
    """One way to serve the model on one GPU type."""

    model: Model = field(repr=False)
    rules: EngineRules = field(repr=False, compare=False)
    """Of the planned release, patches included."""
    flags: ServeFlags
    """The flags of the dry run."""
    kv_cache_dtype: str
    resolved_kv_cache_dtype: str | None
    tensor_parallel_size: int
    pipeline_parallel_size: int
    block_size: int | None
    attention_backends: tuple[str, ...]
    """Attention backends of the layers with a cache, that of most layers first."""
    verdict: Verdict
    error: Refusal | None
    memory: MemoryBudget | None
    kv_cache: KvCache | None
    admission: Admission | None
    doubts: tuple[str, ...]
    """Why the verdict is uncertain, and what goes wrong with the workload."""
    start: Start | None = field(default=None, repr=False, compare=False)
    """The start up to its cache layout, if the engine gets that far."""
    carried: CarriedArguments = NOTHING_CARRIED
    """What the caller's own command holds beside the flags, repeated in ``command``."""
    fails: bool = False
    """Whether the engine is sure to fail after its cache is set up; ``doubts`` say how."""
    replicas: int = 1
    """Copies of this start on the GPUs that there are, each on its own GPUs; 1 where they are not counted."""
    speed: Speed | None = None
    """How fast all replicas serve the workload; ``None`` without a workload, or where it is not known."""
    cost: Cost | None = None
    """What all replicas cost at this speed; ``None`` without a speed or a price."""

    @classmethod
    def without_start(cls, model: Model, rules: EngineRules, flags: ServeFlags, failure: Exception) -> Self:
        """Return a candidate that fails before its memory is known, or that is not modelled."""
        refused = isinstance(failure, EngineRefusal)
        return cls(
            model=model,
            rules=rules,
            flags=flags,
            kv_cache_dtype=flags.kv_cache_dtype or "auto",
            resolved_kv_cache_dtype=None,
            tensor_parallel_size=flags.tensor_parallel_size or 1,
            pipeline_parallel_size=flags.pipeline_parallel_size,
            block_size=None,
            attention_backends=(),
            verdict=Verdict.REFUSED if refused else Verdict.UNCERTAIN,
            error=Refusal.of(failure) if isinstance(failure, EngineRefusal) else None,
            memory=None,
            kv_cache=None,
            admission=None,
            doubts=(*rules.doubts, *(() if refused else (str(failure),))),
        )

    @property
    def data_parallel_size(self) -> int:
        """Data parallel ranks, each with a cache of its own."""
        return self.flags.data_parallel_size

    @property
    def enable_expert_parallel(self) -> bool:
        """Whether each rank holds whole experts."""
        return self.flags.enable_expert_parallel

    @property
    def gpus(self) -> int:
        """GPUs of one replica."""
        return self.tensor_parallel_size * self.pipeline_parallel_size * self.flags.data_parallel_size

    @property
    def engines(self) -> int:
        """Caches that serve requests of their own: data parallel ranks of all replicas."""
        return self.flags.data_parallel_size * self.replicas

    @property
    def all_gpus(self) -> int:
        """GPUs of all replicas together."""
        return self.gpus * self.replicas

    @property
    def all_tokens(self) -> int | None:
        """Tokens of the caches of all replicas together, as the release counts them; ``None`` without one."""
        return None if self.kv_cache is None else self.kv_cache.tokens * self.engines

    @property
    def all_requests(self) -> float | None:
        """Requests of the maximum length that all replicas together hold; ``None`` without a cache."""
        return None if self.kv_cache is None else self.kv_cache.max_concurrency * self.engines

    @property
    def caches_nothing(self) -> bool:
        """Whether the model is an encoder, for which the engine sets up no cache."""
        return self.start is not None and self.start.layout.caches_nothing

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a person should know about it, the most important first; the last are ``notes``."""
        return (*self.own_warnings, *self.notes)

    @property
    def own_warnings(self) -> tuple[str, ...]:
        """Its warnings without its notes."""
        given = (
            *environment_warnings(self.flags.environment, self.rules.release),
            *left_out_warnings(self.carried.left_out, self.carried.not_given),
        )
        if self.start is None or self.memory is None or (self.kv_cache is None and not self.caches_nothing):
            return (*self.doubts, *given)
        ranks = self.flags.data_parallel_size
        of_start = warnings(self.start, ranks, self.flags)
        if self.kv_cache is None:
            return (*self.doubts, *of_start, *given)
        under_load = (*no_room_for_one_request(self.kv_cache), *self.short_of_memory)
        return (*self.doubts, *under_load, *of_start, *given)

    @property
    def short_of_memory(self) -> tuple[str, ...]:
        """Why memory may run out once it serves, though the engine starts."""
        if self.start is None or self.kv_cache is None or self.memory is None:
            return ()
        return little_room_for_steps(self.kv_cache, self.memory)

    @property
    def notes(self) -> tuple[str, ...]:
        """What its figures mean, and where its cache wastes memory."""
        if self.start is None or self.kv_cache is None or self.memory is None:
            return ()
        compiled = first_start_takes_more(self.kv_cache, self.memory)
        return (*compiled, *notes(self.start, self.kv_cache))

    @property
    def command(self) -> str:
        """The ``vllm serve`` line that starts it."""
        revision = self.model.requested_revision
        return serve_command(self.model.id, self.flags, self.rules, revision, self.carried)

    @property
    def command_words(self) -> list[str]:
        """The words of ``command``, without the variables before it."""
        revision = self.model.requested_revision
        return serve_words(self.model.id, self.flags, self.rules, revision, self.carried)

    @property
    def variables(self) -> tuple[tuple[str, str], ...]:
        """Variables of the process that serves, with their values."""
        return variables_of(self.flags, self.carried)

    @property
    def quality(self) -> CacheQuality:
        """What is published about the dtype in which the cache is stored."""
        return quality_of(self.resolved_kv_cache_dtype) if self.start is None else self.start.quality

    @property
    def is_misread(self) -> bool:
        """Whether the engine reads the cache as another type than it writes."""
        return self.start is not None and self.start.is_misread

    @property
    def may_serve(self) -> bool:
        """Whether it may start, and nothing is known that stops it from giving the model's own answers."""
        return self.verdict is not Verdict.REFUSED and not self.fails and not self.is_misread

    @property
    def is_expected_to_fail(self) -> bool:
        """Whether the start is uncertain, and the memory that is expected does not hold one request."""
        return self.verdict is Verdict.UNCERTAIN and self.error is not None

    @property
    def prefix_reuse(self) -> PrefixReuse | None:
        """Which shared prefixes are found again; ``None`` without a cache."""
        if self.start is None or self.kv_cache is None:
            return None
        unheld = None if self.admission is None else self.admission.unheld_blocks
        return prefix_reuse(self.start, self.kv_cache.num_blocks, unheld)

    @property
    def waste(self) -> Waste | None:
        """What one request of the maximum length takes of the first pipeline stage without using it."""
        if self.start is None or self.kv_cache is None:
            return None
        demand = self.start.engine_config.demand(self.kv_cache.max_model_len)
        return waste_of(self.start.layout.stages[0], self.kv_cache.bytes_per_block, demand)


@dataclass(frozen=True, slots=True)
class GpuPlan:
    """All candidates on one GPU type."""

    gpu: GpuType
    recommended: Candidate | None
    candidates: tuple[Candidate, ...]
    sentences: tuple[str, ...]
    """Why this candidate is recommended, or why none is, then what else could be done: a thought each."""
    step: Step | None = None
    """The step of the order of advice that the recommended candidate takes; ``None`` where none is."""
    count: int | None = None
    """GPUs of this type that there are; ``None`` where that is not specified."""
    levers: tuple[Lever, ...] = ()
    """Single changes to the recommended candidate, in the order to try them; empty unless requested."""

    @property
    def reason(self) -> str:
        """The sentences in one text."""
        return " ".join(self.sentences)

    @property
    def verdict(self) -> Verdict:
        """The verdict of what is recommended: of another candidate nobody starts the command.

        Where nothing is recommended, uncertain at best: what starts is known to fail later or to answer
        wrong.
        """
        if self.recommended is not None:
            return self.recommended.verdict
        refused = all(each.verdict is Verdict.REFUSED for each in self.candidates)
        return Verdict.REFUSED if refused else Verdict.UNCERTAIN


@dataclass(frozen=True, slots=True)
class UpgradeOutcome:
    """What the engine of one release does with the flags."""

    version: str
    verdict: Verdict
    error: str | None
    """Type and message of the refusal, if it refuses."""
    tokens: int | None
    max_concurrency: float | None
    max_model_len: int | None
    block_size: int | None
    blocks_per_request: int | None
    """Blocks of all groups that one request of the maximum length takes."""
    attention_backends: tuple[str, ...]
    available_kv_bytes: int | None
    doubt: str | None = None
    """Why this may not hold for the version that was given; ``None`` where there is no doubt."""
    memory: MemoryBudget | None = None


@dataclass(frozen=True, slots=True)
class UpgradeCause:
    """A rule whose change alone changes the outcome."""

    rule: str
    summary: str
    source: str
    """Release and function, or pull request, of the new behaviour."""


@dataclass(frozen=True, slots=True)
class ComparedStart:
    """The one start that releases are compared by on a GPU type."""

    candidate: Candidate
    """It on the release that recommends it."""
    is_recommended: bool
    """Whether that release recommends it; otherwise nothing can be recommended there, and this is the start
    nearest to one."""

    @property
    def version(self) -> str:
        """The newest of the compared releases, which chose it."""
        return str(self.candidate.rules.release)


@dataclass(frozen=True, slots=True)
class Upgrade:
    """One step from a release to a later (or earlier) one on one GPU type."""

    gpu: str
    start: ComparedStart
    """The same on both releases."""
    before: UpgradeOutcome
    after: UpgradeOutcome
    changed: tuple[str, ...]
    """Names of the outcome's fields that differ."""
    causes: tuple[UpgradeCause, ...]


@dataclass(frozen=True, slots=True)
class Counts:
    """On how many GPU types a model starts, and on how many it serves the workload."""

    gpu_types: int
    start: int
    uncertain: int
    refused: int
    serve: int | None
    """Of those that start or may start: all requests are admitted and none is preempted.

    ``None`` without a workload.
    """
    preempt: int | None
    """Of those that start or may start: all requests are admitted, but some are preempted."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The answer to a plan request."""

    verdict: str
    """In one sentence: on how many of the GPU types it starts, or that it starts on none."""
    model: Model
    engine: EngineChoice
    plans: tuple[GpuPlan, ...]
    upgrades: tuple[Upgrade, ...] = ()
    """What changes between the versions of the request, step by step."""
    command: CommandReading | None = None
    """The start that was planned, where the caller sent a command."""
    refusal: Refusal | None = None
    """The refusal that all candidates on all GPU types have in common, with its fixes."""
    workload: Workload | None = None
    """Of the request."""
    find_checkpoints: Callable[[], tuple[str, ...]] = field(default=tuple, compare=False, repr=False)
    """Returns what `checkpoints` has: only text for people names them, and their weights take time."""
    counts: Counts = Counts(0, 0, 0, 0, None, None)
    """The verdict as numbers."""
    whole_catalog: bool = False
    """No GPU types were named, so all were planned."""

    @property
    def checkpoints(self) -> tuple[str, ...]:
        """Quantized checkpoints with their sizes, the least lossy first, where one GPU type was searched."""
        return self.find_checkpoints()
