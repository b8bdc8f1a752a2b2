"""An answer: every candidate with its verdict, best first."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Self

from service.advisor.command import serve_command
from service.advisor.engine_start import Start
from service.advisor.plan_request import EngineChoice, Model
from service.advisor.runtime_headroom import little_room_for_steps
from service.advisor.warnings import warnings
from service.engines.cache_quality import CacheQuality, quality_of
from service.engines.engine_rules import EngineRules
from service.engines.flags import ServeFlags
from service.engines.refusal import EngineRefusal, Stage
from service.gpus.gpu_type import GpuType
from service.kv_cache.admission import GroupAdmission
from service.kv_cache.kv_cache import KvCache
from service.kv_cache.waste import Waste, waste_of
from service.memory.budget import MemoryBudget


class Verdict(StrEnum):
    """Whether the engine starts."""

    STARTS = "starts"
    REFUSED = "does_not_start"
    UNCERTAIN = "uncertain"
    """It depends on what is not known: bytes within the memory interval, a cache given beyond the device."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a candidate does not start, in the engine's own words."""

    type: str
    message: str
    stage: Stage
    detail: str
    """The numbers behind the engine's words, where it does not say them."""
    fix: tuple[str, ...]

    @classmethod
    def of(cls, refusal: EngineRefusal) -> "Refusal":
        """Return a refusal of the engine, without fixes."""
        return cls(refusal.type, refusal.message, refusal.stage, refusal.detail, ())


class Waiting(StrEnum):
    """What the next request of a workload waits for."""

    NOTHING = "nothing"
    """All that are wanted are let in."""
    BLOCKS = "blocks"
    """Its gate asks for more blocks than are free."""
    MAX_NUM_SEQS = "max_num_seqs"
    """As many run as the flag allows."""
    MAX_MODEL_LEN = "max_model_len"
    """It is refused: its prompt leaves no room for an answer."""


@dataclass(frozen=True, slots=True)
class Admission:
    """How many requests of the workload are let in at once, by the release's own gate."""

    prompt_tokens: int
    groups: tuple[GroupAdmission, ...]
    blocks: int
    """Blocks of all groups that must be free before a request is let in."""
    whole_prompt_blocks: int
    """Blocks that a gate without a cap on windows would ask for."""
    sliding_window_blocks: int
    """Of ``blocks``, those of the sliding-window groups."""
    whole_sliding_window_blocks: int
    """Of ``whole_prompt_blocks``, those of the sliding-window groups."""
    peak_prefill_blocks: int
    """Most blocks that one request holds while its prompt is read."""
    blocks_after_prefill: int
    """Blocks that it holds once the prompt has been read."""
    peak_decode_blocks: int
    """Most blocks that it holds while the answer is written."""
    free_blocks: int
    """Blocks of an idle engine; one is the null block."""
    admitted_at_once: int
    """Requests let in one after the other, each once the prompt before has been read."""
    admitted_by_whole_prompts: int
    """The same, had the gate asked for the whole prompt of windows too."""
    completed_without_preemption: int
    """Requests that stay until all are answered, without one being put off for another."""
    waits_for: Waiting
    explanation: str
    hazards: tuple[str, ...]
    """What goes wrong with such requests in this release."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to serve the model on one GPU type."""

    model: Model = field(repr=False)
    rules: EngineRules = field(repr=False, compare=False)
    """Of the release that was planned, patches included."""
    flags: ServeFlags
    """What it was planned with."""
    kv_cache_dtype: str
    resolved_kv_cache_dtype: str | None
    tensor_parallel_size: int
    pipeline_parallel_size: int
    block_size: int | None
    attention_backends: tuple[str, ...]
    """Backends of the layers that keep a cache, most layers first."""
    verdict: Verdict
    error: Refusal | None
    memory: MemoryBudget | None
    kv_cache: KvCache | None
    admission: Admission | None
    doubts: tuple[str, ...]
    """Why it is uncertain, and what goes wrong with the workload."""
    start: Start | None = field(default=None, repr=False, compare=False)
    """What the engine settled before it asked for memory, if it came so far."""
    fails: bool = False
    """Whether the engine surely fails once its cache is set up; ``doubts`` say in which words."""

    @classmethod
    def without_start(cls, model: Model, rules: EngineRules, flags: ServeFlags, failure: Exception) -> Self:
        """Return a candidate that ends before its memory is known, or of which not enough is known."""
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
    def warnings(self) -> tuple[str, ...]:
        """What a person should know about it, most telling first."""
        if self.start is None or self.kv_cache is None or self.memory is None:
            return self.doubts
        under_load = little_room_for_steps(self.kv_cache, self.memory)
        ranks = self.flags.data_parallel_size
        return (*self.doubts, *under_load, *warnings(self.start, self.kv_cache, ranks))

    @property
    def command(self) -> str:
        """What starts it."""
        return serve_command(self.model.id, self.flags, self.rules, self.model.requested_revision)

    @property
    def quality(self) -> CacheQuality:
        """What is published about the type that the cache is stored in."""
        start = self.start
        return quality_of(
            self.resolved_kv_cache_dtype,
            is_misread=self.is_misread,
            is_published=start is not None and start.is_published,
        )

    @property
    def is_misread(self) -> bool:
        """Whether the engine reads the cache as another type than it was written in."""
        return self.start is not None and self.start.is_misread

    @property
    def may_serve(self) -> bool:
        """Whether it may start, and nothing is known that keeps it from answering what the model computes."""
        return self.verdict is not Verdict.REFUSED and not self.fails and not self.is_misread

    @property
    def waste(self) -> Waste | None:
        """What one request of the maximum length takes of the first stage without using it."""
        if self.start is None or self.kv_cache is None:
            return None
        demand = self.start.engine_config.demand(self.kv_cache.max_model_len)
        return waste_of(self.start.layout.stages[0], self.kv_cache.bytes_per_block, demand)


@dataclass(frozen=True, slots=True)
class Lever:
    """One change to the recommended candidate: what it gives and what it costs, found by planning it.

    Every figure is that of the changed start minus that of the candidate.
    """

    change: str
    """In words, as a flag where it is one."""
    flag: str | None
    value: str | int | float | bool | None
    version: str | None
    """The release that it changes to, if it does."""
    patch: str | None
    """The pull request that it lays on top, if it does."""
    verdict: Verdict
    """Of the start with the change."""
    tokens: int
    """Mind that releases count them in different ways."""
    available_bytes: int
    max_concurrency: float
    estimated_max_model_len: int
    admitted_at_once: int | None
    """Requests of the workload; ``None`` without one."""
    cost: str


@dataclass(frozen=True, slots=True)
class GpuPlan:
    """All candidates on one GPU type."""

    gpu: GpuType
    recommended: Candidate | None
    candidates: tuple[Candidate, ...]
    reason: str
    """Why the recommended candidate is, or why there is none."""
    levers: tuple[Lever, ...] = ()
    """Single changes to the recommended candidate, those that give most first; only when asked for."""


@dataclass(frozen=True, slots=True)
class UpgradeOutcome:
    """What a release makes of the flags."""

    version: str
    verdict: Verdict
    error: str | None
    """Type and words of the refusal, if it refuses."""
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


@dataclass(frozen=True, slots=True)
class UpgradeCause:
    """A rule that, changed by itself, changes the outcome."""

    rule: str
    summary: str
    source: str
    """Release and function, or pull request, where the new behaviour can be read."""


@dataclass(frozen=True, slots=True)
class Upgrade:
    """One step from a release to a later (or earlier) one on one GPU type."""

    gpu: str
    before: UpgradeOutcome
    after: UpgradeOutcome
    changed: tuple[str, ...]
    """Names of the outcome's fields that differ."""
    causes: tuple[UpgradeCause, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """The whole answer."""

    verdict: str
    """In one sentence: on how many of the GPU types it starts, or that it fits on none of them."""
    model: Model
    engine: EngineChoice
    plans: tuple[GpuPlan, ...]
    upgrades: tuple[Upgrade, ...] = ()
    """What changes between the versions that were named, step by step."""
