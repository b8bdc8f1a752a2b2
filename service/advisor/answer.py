"""An answer: every candidate with its verdict, best first."""

from dataclasses import dataclass
from enum import StrEnum

from service.advisor.request import EngineChoice, Model
from service.engines.refusal import Stage
from service.gpus.gpu_type import GpuType
from service.kv_cache.admission import GroupAdmission
from service.kv_cache.answer import KvCache
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


@dataclass(frozen=True, slots=True)
class Admission:
    """How many requests of the workload are let in at once, by the release's own gate."""

    groups: tuple[GroupAdmission, ...]
    """Blocks that one prompt must find free, group by group."""
    blocks: int
    """Those of all groups together."""
    sliding_window_blocks: int
    """Those of the sliding-window groups together."""
    free_blocks: int
    """Blocks of an idle engine; one is the null block."""
    admitted_at_once: int
    explanation: str


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to serve the model on one GPU type."""

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
    warnings: tuple[str, ...]
    command: str


@dataclass(frozen=True, slots=True)
class GpuPlan:
    """All candidates on one GPU type."""

    gpu: GpuType
    recommended: Candidate | None
    candidates: tuple[Candidate, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
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


@dataclass(frozen=True, slots=True)
class Cause:
    """A rule that, changed by itself, changes the outcome."""

    rule: str
    summary: str
    source: str
    """Release and function, or pull request, where the new behaviour can be read."""


@dataclass(frozen=True, slots=True)
class Upgrade:
    """One step from a release to a later (or earlier) one on one GPU type."""

    gpu: str
    before: Outcome
    after: Outcome
    changed: tuple[str, ...]
    """Names of the outcome's fields that differ."""
    causes: tuple[Cause, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """The whole answer."""

    model: Model
    engine: EngineChoice
    """With the release that was planned, never ``None``."""
    plans: tuple[GpuPlan, ...]
    upgrades: tuple[Upgrade, ...] = ()
    """What changes between the versions that were named, step by step."""
