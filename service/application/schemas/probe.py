"""Probes as operators and dashboards see them."""

import json
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field

from service.application.schemas.base import Input, Output
from service.application.schemas.question import PlanBody
from service.probes.job_spec import DEFAULT_WALL_SECONDS, MAX_WALL_SECONDS
from service.probes.job_state import State
from service.probes.lifecycle import Job

MAX_DEVICE_BYTES = 1 << 44

Label = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", max_length=64)]
GpuName = Annotated[str, Field(min_length=1, max_length=128)]
GpuUuid = Annotated[str, Field(pattern=r"^[A-Za-z0-9-]{1,64}$", max_length=64)]
DeviceBytes = Annotated[int, Field(ge=0, le=MAX_DEVICE_BYTES)]


class TargetInput(Input):
    """Where the probe may run; left out: on any node that has the plan's GPU type."""

    gpu_name: GpuName | None = Field(default=None, description="As the driver prints it")
    gpu_uuid: GpuUuid | None = None
    label: Label | None = Field(default=None, description="A label that the worker was started with")


class LimitsInput(Input):
    """What the probe may take."""

    wall_seconds: Annotated[int, Field(ge=1, le=MAX_WALL_SECONDS)] = DEFAULT_WALL_SECONDS
    max_bytes: DeviceBytes | None = Field(default=None, description="Memory of one GPU")
    reserve_bytes: DeviceBytes | None = Field(
        default=None, description="Memory to leave free; never less than the worker's own reserve"
    )
    force: bool = Field(default=False, description="Run beside others, where the worker allows it too")


class ProbeBody(Input):
    """A probe. `alloc` and `engine` measure a plan for one GPU type."""

    kind: Literal["inventory", "alloc", "engine"]
    plan: PlanBody | None = Field(default=None, description="What to measure, with exactly one GPU")
    target: TargetInput = Field(default_factory=TargetInput)
    limits: LimitsInput = Field(default_factory=LimitsInput)


class ProbeQuery(Input):
    """Which probes to list."""

    model_config = ConfigDict(strict=False)

    state: State | None = None
    limit: Annotated[int, Field(ge=1, le=200)] = 50
    before: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$", max_length=32)] | None = Field(
        default=None, description="Only older ones than this"
    )


class ProbeAnswer(Output):
    """A probe."""

    id: str
    kind: Literal["inventory", "alloc", "engine"]
    state: State
    phase: str = Field(description="What the worker does just now, in its own words")
    cancel_requested: bool
    attempts: int
    worker: str | None
    created_at: float = Field(description="Seconds since the epoch")
    updated_at: float
    gpu_name: str | None
    engine_release: str | None
    predicted: dict[str, Any] = Field(description="What the plan said when the probe was asked for")
    result: dict[str, Any] | None = Field(description="What the worker handed in, once it ended")

    @classmethod
    def of(cls, job: Job) -> Self:
        """Read a probe off a job."""
        return cls(
            id=job.id,
            kind=job.spec.work.kind.value,
            state=job.state,
            phase=job.phase,
            cancel_requested=job.cancel_requested,
            attempts=job.attempts,
            worker=job.worker,
            created_at=job.created_at,
            updated_at=job.updated_at,
            gpu_name=job.spec.target.gpu_name,
            engine_release=job.spec.target.engine_release,
            predicted=dict(job.spec.predicted),
            result=None if job.result is None else json.loads(job.result),
        )


class ProbeList(Output):
    """Probes, the newest first."""

    probes: list[ProbeAnswer]
