"""An explained log."""

from dataclasses import dataclass
from enum import StrEnum

from service.advisor.plan_request import PlanRequest
from service.advisor.plan_types import Refusal, Verdict
from service.startup_log.log import StartupLog


class Agreement(StrEnum):
    """How a logged value compares with the planned one."""

    AGREES = "agrees"
    """The same within the digits that the log prints."""
    WITHIN = "within_estimate"
    """Inside the interval of an estimate."""
    DIFFERS = "differs"
    NOT_COMPARED = "not_compared"


@dataclass(frozen=True, slots=True)
class Assumption:
    """What the log does not tell and the plan needs."""

    field: str
    """Member of the request that would tell it, by path."""
    taken: str
    why: str
    certain: bool = False
    """Nothing else fits, or the caller told what the log does not."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the log beside the plan."""

    name: str
    line: int
    """Counted from 1 in the log."""
    logged: float | str
    planned: float | str | None
    low: float | None
    """Least value that the plan allows; none for words."""
    high: float | None
    agreement: Agreement
    why: str


@dataclass(frozen=True, slots=True)
class Fix:
    """A change that was planned, and with which the start gets past the failure."""

    words: str
    verdict: Verdict
    tokens: int | None
    max_concurrency: float | None
    command: str


class CauseBasis(StrEnum):
    """Where the cause of a failure is known from."""

    LOG = "log"
    """The engine says it."""
    PARAPHRASED = "paraphrased"
    """A person says it in other words: memory that is needed against less that is left."""
    PLAN = "plan"
    """The log only says that it failed; planning the same start names the refusal."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Why a start failed."""

    cause: str | None
    """A name to tell causes by; none where the words are not known."""
    basis: CauseBasis
    stage: str
    type: str
    message: str
    """The engine's own words."""
    line: int
    reached: str
    """The last point that the start reached."""
    means: str
    remedy: str
    """What helps in general; `fixes` were planned for this very start."""
    source: str
    planned: Refusal | None
    """What the plan refuses with, where it refuses too."""
    foreseen: bool | None
    """Whether the plan refuses for the same reason; none where it could not be asked."""
    fixes: tuple[Fix, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """The whole answer."""

    log: StartupLog
    request: PlanRequest | None
    """The start that was planned; none where too little is known to plan one."""
    command: str | None
    """What starts it."""
    verdict: Verdict | None
    """Of that start, with the memory that the log tells."""
    assumptions: tuple[Assumption, ...]
    missing: tuple[Assumption, ...]
    """What kept the start from being planned."""
    findings: tuple[Finding, ...]
    ending: Diagnosis | None
    unmodelled: tuple[str, ...]
    """Flags of the start that no plan heeds and that can make it differ."""
    notes: tuple[str, ...]
    """What a person should know about the planned start."""
