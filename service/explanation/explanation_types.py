"""The types of an explained log."""

from dataclasses import dataclass
from enum import StrEnum

from service.advisor.candidates.refusal import Fix, Refusal
from service.advisor.candidates.verdict import Verdict
from service.advisor.request.plan_request import PlanRequest
from service.startup_log.log import StartupLog
from service.startup_log.prose.sentences import Quote


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
    """A value that the plan needs and the log does not contain."""

    field: str
    """Field of the request that gives the value, by path."""
    taken: str
    why: str
    certain: bool = False
    """Only this value fits the log, or the caller gave it."""
    doubt: str = ""
    """What the plan is of, such as a similar model, where the logged start itself cannot be planned."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One value of the log, compared with the plan."""

    name: str
    line: int
    """Counted from 1 in the log."""
    logged: float | str
    planned: float | str | None
    low: float | None
    """Least value that the plan allows; ``None`` for words."""
    high: float | None
    agreement: Agreement
    why: str


class CauseBasis(StrEnum):
    """The source of a failure's cause."""

    LOG = "log"
    """The engine's own message."""
    PARAPHRASED = "paraphrased"
    """A person's own words in the log."""
    ORIGIN = "origin"
    """The part of the engine, or of a library, in which an exception of this class was raised."""
    PLAN = "plan"
    """The log only says that the start failed; the dry run of the same start gives the refusal."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class SaidCause:
    """A cause that a person's words describe, which no message of the program shows."""

    cause: str
    words: str
    line: int
    """Counted from 1 in the log."""
    means: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Why a start failed."""

    cause: str | None
    """The cause's name; ``None`` if the message is not known."""
    basis: CauseBasis
    stage: str
    type: str
    message: str
    """The engine's own message."""
    line: int
    reached: str
    """The last point that the start reached."""
    means: str
    remedy: str
    """What helps in general; `fixes` were tested for this start."""
    source: str
    planned: Refusal | None
    """The plan's refusal, if it refuses too."""
    foreseen: bool | None
    """Whether the plan refuses for the same reason; ``None`` where a plan cannot say."""
    fixes: tuple[Fix, ...]
    offers: tuple[str, ...] = ()
    """Flags that follow from the numbers of the log alone, each with its reason; they were not planned."""
    notes: tuple[str, ...] = ()
    """What plans showed beside the fixes, in sentences, such as what does not help."""
    serving: bool = False
    """The engine had started and served when it failed."""
    refused: bool = False
    """The engine runs and refused a request; neither its start nor the engine failed."""
    answers: bool = False
    """The server answered later requests, if only that they failed, so that it had not ended."""
    hangs: bool = False
    """The engine goes on and nothing more happens: a process waits for one that does not answer."""
    start: int | None = None
    """Which of several starts in the log failed, counted from 1."""
    earlier: bool = False
    """A later start in the same log came up."""
    part: str = ""
    """The part of the engine or of a library that raised it, in words; empty where it was not needed."""
    of_start: bool = True
    """The text shows that a start failed: a step of it, its stage, or its calls."""
    by_place: bool = False
    """Only the place of the exception shows its cause, and not what it says."""
    said: SaidCause | None = None
    """What the text says beside the program's own message, which does not show its cause."""
    works: tuple[Quote, ...] = ()
    """Sentences of the text that say with what it works; they are a person's, and nothing tested them."""
    wanted: str = ""
    """Lines to paste that would tell the cause; empty where the text holds the engine's own words of it."""
    part_alone: bool = False
    """A person names what failed, and nothing of why, so that the cause is only the nearest one."""
    title: str = ""
    """What failed, in words that say more than the cause's; empty where those are all."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The answer to an explain request."""

    log: StartupLog
    request: PlanRequest | None
    """The planned start; ``None`` if too little is known to plan one."""
    command: str | None
    """The ``vllm serve`` line that starts it."""
    verdict: Verdict | None
    """Of that start, with the logged memory."""
    assumptions: tuple[Assumption, ...]
    missing: tuple[Assumption, ...]
    """The values without which the start cannot be planned."""
    findings: tuple[Finding, ...]
    ending: Diagnosis | None
    unmodelled: tuple[str, ...]
    """Flags of the start that plans ignore and that can make it differ from its plan."""
    notes: tuple[str, ...]
    """What a person should know about the planned start."""
    cache_figures: Agreement | None = None
    """Whether the figures that follow from the layers' shapes agree; ``None`` where the log has none."""
