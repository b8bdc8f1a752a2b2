"""What workers and the service say to each other."""

from typing import Annotated, Any, Literal

from pydantic import Field

from service.application.schemas.base import Input, Output
from service.application.schemas.probe import (
    DeviceBytes,
    GpuName,
    GpuUuid,
    Label,
)
from service.application.schemas.serve import Name, ServeInput
from service.calibration.measurement import MeasurementOutcome, Origin
from service.probes.job_state import State

MAX_WAIT_SECONDS = 25
MAX_LOG_CHARACTERS = 8192
MAX_GPUS_OF_A_NODE = 64
MAX_RANKS = 1024

Node = Label
Fence = Annotated[int, Field(ge=1, le=1 << 62)]
Phase = Annotated[str, Field(max_length=64, pattern=r"^[ -~]*$")]
Seconds = Annotated[float, Field(ge=0, le=1e6)]
Version = Annotated[str, Field(max_length=64)]


class LeaseBody(Input):
    """A worker asks for a job that it can run."""

    node: Node
    kinds: Annotated[list[Literal["inventory", "alloc", "engine"]], Field(min_length=1, max_length=3)]
    gpu_names: Annotated[list[GpuName], Field(max_length=MAX_GPUS_OF_A_NODE)] = Field(default_factory=list)
    gpu_uuids: Annotated[list[GpuUuid], Field(max_length=MAX_GPUS_OF_A_NODE)] = Field(default_factory=list)
    labels: Annotated[list[Label], Field(max_length=32)] = Field(default_factory=list)
    releases: Annotated[list[Name], Field(max_length=32)] = Field(
        default_factory=list, description="Engine releases installed on the node"
    )
    gpus: Annotated[int, Field(ge=0, le=MAX_GPUS_OF_A_NODE, description="Devices that a job may take")] = 0
    wait_seconds: Annotated[float, Field(ge=0, le=MAX_WAIT_SECONDS)] = 0


class LeaseAnswer(Output):
    """A job, leased."""

    probe_id: str
    fence: int = Field(description="To be shown with everything that is said about this lease")
    ttl_seconds: float
    heartbeat_seconds: float
    spec: dict[str, Any] = Field(description="The job, in a closed schema")


class HeartbeatBody(Input):
    """A worker is alive."""

    node: Node
    fence: Fence
    phase: Phase = ""


class HeartbeatAnswer(Output):
    """The lease is prolonged."""

    ttl_seconds: float
    cancel: bool = Field(description="Stop, and hand in that it was cancelled")


class ReadingInput(Input):
    """A number of bytes, and how it was had."""

    bytes: Annotated[int, Field(ge=-(1 << 44), le=1 << 44)]
    how: Literal["measured", "parsed", "derived"]


class RankInput(Input):
    """What one rank of the engine said of its memory."""

    free_before: ReadingInput | None = None
    requested: ReadingInput | None = None
    weights: ReadingInput | None = None
    activation: ReadingInput | None = None
    non_torch: ReadingInput | None = None
    graphs_estimated: ReadingInput | None = None
    graphs: ReadingInput | None = None
    available_kv: ReadingInput | None = None


class DeviceInput(Input):
    """The GPU that it was measured on."""

    name: GpuName
    compute_capability: Annotated[str, Field(pattern=r"^[0-9]{1,3}\.[0-9]$", max_length=5)]
    total_bytes: DeviceBytes
    uuid: GpuUuid | None = None


class StackInput(Input):
    """The software below the engine."""

    driver: Version | None = None
    cuda: Version | None = None
    torch: Version | None = None
    nccl: Version | None = None


class CacheInput(Input):
    """The cache that the engine made of the memory."""

    num_blocks: Annotated[int, Field(ge=0, le=1 << 40)]
    bytes_per_block: DeviceBytes
    groups: Annotated[int, Field(ge=0, le=1 << 16)]


class MeasurementInput(Input):
    """A start of the engine, measured. What was started the service knows itself."""

    measured_at: Annotated[
        float,
        Field(
            ge=0,
            le=1e11,
            description="Seconds since the epoch. Of what a worker hands in the service takes its own time",
        ),
    ]
    device: DeviceInput
    utilization: Annotated[float, Field(gt=0, le=1)]
    ranks: Annotated[list[RankInput], Field(min_length=1, max_length=MAX_RANKS)]
    stack: StackInput = Field(default_factory=StackInput)
    cache: CacheInput | None = None
    contaminated: bool = False
    timings: dict[Annotated[str, Field(max_length=64)], Seconds] = Field(default_factory=dict, max_length=32)


class MeasuredModelInput(Input):
    """The model that was started."""

    id: Annotated[str, Field(min_length=1, max_length=256)]
    config: dict[str, Any]
    checkpoint_bytes: Annotated[int, Field(ge=0, le=1 << 50)] | None = None


class ExportedMeasurementInput(MeasurementInput):
    """A measurement that another service exported: it tells what was started, too."""

    schema_version: Literal[1]
    node: Annotated[str, Field(min_length=1, max_length=256)]
    release: Version
    flags: ServeInput
    model: MeasuredModelInput
    origin: Origin
    reporter: Annotated[str, Field(max_length=64, description="The token that it was handed in with")] = ""


class ResultInput(Input):
    """How a probe ended."""

    outcome: Literal["measured", "out_of_memory", "refused", "failed", "cancelled"]
    detail: Annotated[str, Field(max_length=2000)] = ""
    measurement: MeasurementInput | None = None
    inventory: Annotated[list[dict[str, Any]], Field(max_length=MAX_GPUS_OF_A_NODE)] = Field(
        default_factory=list
    )
    allocation: dict[Annotated[str, Field(max_length=64)], int | float | str | None] = Field(
        default_factory=dict, max_length=64
    )
    log_excerpt: Annotated[str, Field(max_length=MAX_LOG_CHARACTERS)] = ""


class ResultBody(Input):
    """A worker hands in how a probe ended."""

    node: Node
    fence: Fence
    result: ResultInput


class ResultAnswer(Output):
    """The result is kept."""

    state: State
    digest: str = Field(description="Of the result; the same may be sent again")


STATES = {
    MeasurementOutcome.MEASURED: State.SUCCEEDED,
    MeasurementOutcome.OUT_OF_MEMORY: State.FAILED,
    MeasurementOutcome.FAILED: State.FAILED,
    MeasurementOutcome.REFUSED: State.REFUSED,
    MeasurementOutcome.CANCELLED: State.CANCELLED,
}
"""The state in which each outcome leaves a job."""
