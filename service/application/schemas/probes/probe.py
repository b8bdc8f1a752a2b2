"""Requests for probes, and answers about them."""

from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field

from service.application.schemas.base import Input, Output
from service.application.schemas.probes.probe_result import PredictedAnswer, ProbeResultAnswer
from service.application.schemas.requests.plan_body import PlanBody
from service.probes.job_spec import DEFAULT_WALL_SECONDS, MAX_WALL_SECONDS, Target
from service.probes.job_state import State
from service.probes.lifecycle import Job

MAX_DEVICE_BYTES = 1 << 44

Label = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", max_length=64)]
GpuName = Annotated[str, Field(min_length=1, max_length=128)]
GpuUuid = Annotated[str, Field(pattern=r"^[A-Za-z0-9-]{1,64}$", max_length=64)]
DeviceBytes = Annotated[int, Field(ge=0, le=MAX_DEVICE_BYTES)]


class TargetInput(Input):
    """Where the probe may run; left out: on any node that has the plan's GPU type."""

    gpu_name: GpuName | None = Field(
        default=None, description="Name as the driver prints it; left out: that of the plan's GPU type"
    )
    gpu_uuid: GpuUuid | None = Field(default=None, description="UUID of one GPU; left out: any GPU")
    label: Label | None = Field(
        default=None, description="A label that the worker was started with; left out: any worker"
    )


class LimitsInput(Input):
    """What the probe may take."""

    wall_seconds: Annotated[int, Field(ge=1, le=MAX_WALL_SECONDS)] = Field(
        default=DEFAULT_WALL_SECONDS, description="Seconds after which the probe is stopped"
    )
    max_bytes: DeviceBytes | None = Field(
        default=None, description="Bytes of one GPU that the probe may take; left out: all but the reserve"
    )
    reserve_bytes: DeviceBytes | None = Field(
        default=None,
        description="Bytes of each GPU to leave free; never less than the worker's own reserve, and left "
        "out: that",
    )
    force: bool = Field(
        default=False, description="Use a GPU that other processes use, where the worker allows it too"
    )


class ProbeBody(Input):
    """A probe. `alloc`, `engine` and `speed` measure a plan for one GPU type."""

    kind: Literal["inventory", "alloc", "engine", "speed"] = Field(
        description="`inventory` lists GPUs, `alloc` allocates the planned tensors, `engine` starts the "
        "engine, `speed` starts it and times steps of several batches and contexts"
    )
    plan: PlanBody | None = Field(
        default=None, description="What to measure, with exactly one GPU; left out only for `inventory`"
    )
    target: TargetInput = Field(default_factory=TargetInput, description="Where the probe may run")
    limits: LimitsInput = Field(default_factory=LimitsInput, description="What the probe may take")


class ProbeQuery(Input):
    """Which probes to list."""

    model_config = ConfigDict(strict=False)

    state: State | None = Field(default=None, description="Only probes in this state; left out: in any")
    limit: Annotated[int, Field(ge=1, le=200)] = Field(default=50, description="Most probes to list")
    before: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$", max_length=32)] | None = Field(
        default=None, description="Id of a probe: only older ones are listed; left out: the newest are"
    )
    after: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$", max_length=32)] | None = Field(
        default=None, description="Value of `next` in the page before, the same as `before`; left out: none"
    )


@dataclass(frozen=True, slots=True)
class QueuedFor:
    """What a job in the queue waits for."""

    able: int
    """Workers that were seen lately and could take it."""
    since: float
    """When the last such worker was seen, or when this service began to look; seconds since the epoch."""
    never: bool
    """No such worker was ever seen."""


class QuestionAnswer(Output):
    """What was asked for."""

    model: str | None = Field(
        description="Id of the model, or the name given beside a config; null for `inventory`"
    )
    revision: str | None = Field(
        description="Branch, tag or commit that was asked for; null: the main branch"
    )
    gpu: str | None = Field(
        validation_alias="gpu_id", description="Id of the GPU type that was planned; null for `inventory`"
    )
    engine_release: str | None = Field(description="Release that was planned; null for `inventory`")
    serve: dict[str, Any] = Field(
        validation_alias="flags", description="Flags of the engine as they were given, by its own names"
    )
    label: str | None = Field(description="Label that the worker must have; null where any worker will do")
    requester: str | None = Field(description="Name of the token that asked; null where it was not stored")


class ProbeAnswer(Output):
    """A probe."""

    id: str = Field(description="Id of the probe")
    kind: Literal["inventory", "alloc", "engine", "speed"] = Field(
        description="What is measured: `inventory` lists GPUs, `alloc` allocates the planned tensors, "
        "`engine` starts the engine, `speed` times steps too"
    )
    state: State = Field(description="Where the probe stands")
    phase: str = Field(description="What the worker does now, in its own words; empty before it begins")
    cancel_requested: bool = Field(
        description="Whether the probe was cancelled, so that its worker should stop"
    )
    attempts: int = Field(description="Number of leases so far")
    reason: str | None = Field(
        description="Why the probe ended without a result, or went back to the queue: no worker took it, or "
        "the worker that had it was lost; null otherwise"
    )
    worker: str | None = Field(
        description="Name of the worker that has the probe, or had it last; null before the first lease"
    )
    created_at: float = Field(description="When the probe was created, in seconds since the Unix epoch")
    updated_at: float = Field(description="When the probe last changed, in seconds since the Unix epoch")
    created: datetime = Field(description="`created_at` as a date and time in UTC (RFC 3339)")
    updated: datetime = Field(description="`updated_at` as a date and time in UTC (RFC 3339)")
    question: QuestionAnswer = Field(description="What was asked for")
    gpu_name: str | None = Field(
        description="Name of the GPU that the probe needs, as the driver prints it; null where any GPU will "
        "do"
    )
    engine_release: str | None = Field(
        description="Release that the worker must have installed; null for probes without an engine"
    )
    able_workers: int | None = Field(
        description="Workers that were seen in the last 90 seconds and could take it; null once it is "
        "leased or has ended"
    )
    waiting: str | None = Field(
        description="What a queued probe waits for, in words; null once it is leased or has ended"
    )
    predicted: PredictedAnswer = Field(description="What the plan said when the probe was asked for")
    result: ProbeResultAnswer | None = Field(
        description="The result that the worker sent; null before the probe has ended, and where it ended "
        "without a worker"
    )

    @classmethod
    def of(cls, job: Job, waiting: QueuedFor | None) -> Self:
        """Return the answer about a job; ``waiting``: for one in the queue, what it waits for."""
        target = job.spec.target
        return cls(
            id=job.id,
            kind=job.spec.asked_kind,
            state=job.state,
            phase=job.phase,
            cancel_requested=job.cancel_requested,
            attempts=job.attempts,
            reason=job.reason,
            worker=job.worker,
            created_at=job.created_at,
            updated_at=job.updated_at,
            gpu_name=target.gpu_name,
            engine_release=target.engine_release,
            created=datetime.fromtimestamp(job.created_at, UTC),
            updated=datetime.fromtimestamp(job.updated_at, UTC),
            question=QuestionAnswer.model_validate({**asdict(job.spec.question), "label": target.label}),
            able_workers=None if waiting is None else waiting.able,
            waiting=None if waiting is None else _words(target, waiting),
            predicted=PredictedAnswer.of(job),
            result=ProbeResultAnswer.of(job),
        )


def _words(target: Target, waiting: QueuedFor) -> str:
    if waiting.able:
        return f"{waiting.able} {'worker' if waiting.able == 1 else 'workers'} could take it"
    needs = {
        "GPU": target.gpu_name,
        "GPU UUID": target.gpu_uuid,
        "label": target.label,
        "vLLM": target.engine_release,
    }
    wanted = ", ".join(f"{what} {value}" for what, value in needs.items() if value is not None)
    worker = f"no worker with {wanted}" if wanted else "no worker"
    when = datetime.fromtimestamp(waiting.since, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return f"{worker} was seen since {when}" + (", when this service started" if waiting.never else "")


class ProbeList(Output):
    """Probes, the newest first."""

    probes: list[ProbeAnswer] = Field(description="The probes, the newest first")
    next: str | None = Field(description="Value of `after` for the next page; null on the last page")
