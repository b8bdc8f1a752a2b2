"""Requests for probes, and answers about them."""

import json
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field

from service.application.schemas.base import Input, Output
from service.application.schemas.plan_body import PlanBody
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
    force: bool = Field(default=False, description="Run beside others, where the worker allows it too")


class ProbeBody(Input):
    """A probe. `alloc` and `engine` measure a plan for one GPU type."""

    kind: Literal["inventory", "alloc", "engine"] = Field(
        description="`inventory` lists GPUs, `alloc` allocates the planned tensors, `engine` starts the "
        "engine"
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


class ProbeAnswer(Output):
    """A probe."""

    id: str = Field(description="Id of the probe")
    kind: Literal["inventory", "alloc", "engine"] = Field(
        description="What is measured: `inventory` lists GPUs, `alloc` allocates the planned tensors, "
        "`engine` starts the engine"
    )
    state: State = Field(description="Where the probe stands")
    phase: str = Field(description="What the worker does now, in its own words; empty before it begins")
    cancel_requested: bool = Field(
        description="Whether the probe was cancelled, so that its worker should stop"
    )
    attempts: int = Field(description="Number of leases so far")
    worker: str | None = Field(
        description="Name of the worker that has the probe, or had it last; null before the first lease"
    )
    created_at: float = Field(description="When the probe was created, in seconds since the Unix epoch")
    updated_at: float = Field(description="When the probe last changed, in seconds since the Unix epoch")
    gpu_name: str | None = Field(
        description="Name of the GPU that the probe needs, as the driver prints it; null where any GPU will "
        "do"
    )
    engine_release: str | None = Field(
        description="Release that the worker must have installed; null for probes without an engine"
    )
    predicted: dict[str, Any] = Field(
        description="`memory`, `kv_cache` and `block_size` of the plan at the time of the request; empty "
        "for `inventory`"
    )
    result: dict[str, Any] | None = Field(
        description="The result that the worker sent; null before the probe has ended, and where it ended "
        "without a worker"
    )

    @classmethod
    def of(cls, job: Job) -> Self:
        """Return the answer about a job."""
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

    probes: list[ProbeAnswer] = Field(description="The probes, the newest first")
