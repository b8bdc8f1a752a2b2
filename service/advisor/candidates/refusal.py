"""Refusal: why a candidate does not start, and the changes that get past it."""

from dataclasses import dataclass, replace

from service.advisor.candidates.verdict import Verdict
from service.engines.refusal import EngineRefusal, Stage


@dataclass(frozen=True, slots=True)
class Fix:
    """Changes with which the same start was planned and does not fail."""

    change: str
    """Flags with their values, a release, a patch or a checkpoint, as few as are enough."""
    verdict: Verdict
    """Of the start with the change."""
    tokens: int | None
    """Of its cache, as the release logs them; ``None`` without a cache."""
    max_concurrency: float | None
    """Requests of the maximum length that fit at once; ``None`` without a cache."""
    command: str
    """The ``vllm serve`` line with the change."""
    version: str
    """The release that was planned with the change."""
    patch: str | None = None
    """The pull request that the change lays over the release, if it is one."""
    checkpoint: str | None = None
    """The checkpoint with quantized weights that the change is to, if it is one."""
    weight_bytes: int | None = None
    """Of that checkpoint, its weights."""

    gpus: int = 1
    """GPUs of the start with the change."""
    warning: str | None = None
    """Why the memory of the start with the change may run out under load; ``None`` where it leaves enough."""
    logged_cache_bytes: int | None = None
    """Bytes for the cache by a log, that tokens and concurrency are of; ``None`` where it is estimated."""

    @property
    def risk(self) -> tuple[bool, bool]:
        """How unsafe it is, the safest least: whether its start is sure, then whether memory may run out."""
        return (self.verdict is not Verdict.STARTS, self.warning is not None)

    @property
    def words(self) -> str:
        """The change, by the name that answers about logs have for it."""
        return self.change


@dataclass(frozen=True)
class Refusal:
    """Why a candidate does not start, in the engine's own words."""

    type: str
    message: str
    stage: Stage
    detail: str
    """The numbers that the engine's message leaves out."""
    fixes: tuple[Fix, ...] = ()
    """What gets past it, each tried by a dry run."""
    notes: tuple[str, ...] = ()
    """What else to know about ways past it, in sentences, such as which quantized checkpoints exist."""

    @classmethod
    def of(cls, refusal: EngineRefusal) -> "Refusal":
        """Return a refusal of the engine, without fixes."""
        return cls(refusal.type, refusal.message, refusal.stage, refusal.detail)

    @property
    def bare(self) -> "Refusal":
        """The refusal alone, without fixes and notes: what other starts share with it."""
        return replace(self, fixes=(), notes=())

    @property
    def fix(self) -> tuple[str, ...]:
        """The changes of the fixes, without what they give."""
        return tuple(each.change for each in self.fixes)
