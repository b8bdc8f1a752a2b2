"""Requests of workers, and the answers to them."""

from typing import Annotated, Any, Literal

from pydantic import Field

from service.application.schemas.base import Input, Output
from service.application.schemas.flags.flag_types import Name
from service.application.schemas.flags.serve import ServeInput
from service.application.schemas.probes.probe import (
    DeviceBytes,
    GpuName,
    GpuUuid,
    Label,
)
from service.calibration.measurement import MeasurementOutcome, Origin
from service.probes.job_state import State

MAX_WAIT_SECONDS = 25
MAX_LOG_CHARACTERS = 8192
MAX_GPUS_OF_A_NODE = 64
MAX_RANKS = 1024
MAX_POINTS = 256

Node = Label
NODE = "Name of the node, the same in every request of one worker"
FENCE = "Number of the lease, as the lease says"
Fence = Annotated[int, Field(ge=1, le=1 << 62)]
Phase = Annotated[str, Field(max_length=64, pattern=r"^[ -~]*$")]
Seconds = Annotated[float, Field(ge=0, le=1e6)]
Version = Annotated[str, Field(max_length=64)]


class LeaseBody(Input):
    """A worker's request for a job that it can run."""

    node: Node = Field(description=NODE)
    kinds: Annotated[list[Literal["inventory", "alloc", "engine"]], Field(min_length=1, max_length=3)] = (
        Field(description="Kinds of probes that the worker runs")
    )
    gpu_names: Annotated[list[GpuName], Field(max_length=MAX_GPUS_OF_A_NODE)] = Field(
        default_factory=list, description="Names of the node's GPUs, as the driver prints them"
    )
    gpu_uuids: Annotated[list[GpuUuid], Field(max_length=MAX_GPUS_OF_A_NODE)] = Field(
        default_factory=list, description="UUIDs of the node's GPUs, as the driver prints them"
    )
    labels: Annotated[list[Label], Field(max_length=32)] = Field(
        default_factory=list, description="Labels that the worker was started with"
    )
    releases: Annotated[list[Name], Field(max_length=32)] = Field(
        default_factory=list, description="Engine releases installed on the node"
    )
    gpus: Annotated[int, Field(ge=0, le=MAX_GPUS_OF_A_NODE, description="GPUs that a job may take")] = 0
    wait_seconds: Annotated[float, Field(ge=0, le=MAX_WAIT_SECONDS)] = Field(
        default=0, description="Seconds to wait for a job before 204 is answered"
    )


class LeaseAnswer(Output):
    """A job with its lease."""

    probe_id: str = Field(description="Id of the job")
    fence: int = Field(
        description="Number of this lease, to be sent with every request about it; a later lease of the job "
        "has a greater number"
    )
    ttl_seconds: float = Field(description="Seconds after which the lease ends unless it is prolonged")
    heartbeat_seconds: float = Field(description="Seconds to wait between two heartbeats")
    spec: dict[str, Any] = Field(description="The job, by a closed schema")


class HeartbeatBody(Input):
    """A worker's request to prolong its lease."""

    node: Node = Field(description=NODE)
    fence: Fence = Field(description=FENCE)
    phase: Phase = Field(default="", description="What the worker does now, in its own words")


class HeartbeatAnswer(Output):
    """The lease is prolonged."""

    ttl_seconds: float = Field(description="Seconds after which the lease ends unless it is prolonged again")
    cancel: bool = Field(
        description="Whether to stop the probe and send a result with the outcome `cancelled`"
    )


class ReadingInput(Input):
    """A number of bytes, and where it comes from."""

    bytes: Annotated[int, Field(ge=-(1 << 44), le=1 << 44, description="The number of bytes")]
    how: Literal["measured", "parsed", "derived"] = Field(
        description="`measured` by the engine or the driver, `parsed` from the log, `derived` from other "
        "values"
    )


class RankInput(Input):
    """What one rank of the engine reported of its memory; null or left out where the release does not."""

    free_before: ReadingInput | None = Field(
        default=None, description="Bytes free when the engine first looks, after CUDA's context was made"
    )
    requested: ReadingInput | None = Field(
        default=None, description="Bytes that `gpu_memory_utilization` grants to the engine"
    )
    weights: ReadingInput | None = Field(default=None, description="Bytes of the loaded weights")
    activation: ReadingInput | None = Field(
        default=None, description="Bytes of activations at the peak of the profile run"
    )
    non_torch: ReadingInput | None = Field(default=None, description="Bytes that PyTorch does not allocate")
    graphs_estimated: ReadingInput | None = Field(
        default=None, description="Bytes set aside for CUDA graphs before the cache was sized"
    )
    graphs: ReadingInput | None = Field(default=None, description="Bytes that captured CUDA graphs took")
    available_kv: ReadingInput | None = Field(default=None, description="Bytes left for the KV cache")


class DeviceInput(Input):
    """The GPU that it was measured on."""

    name: GpuName = Field(description="Name as the driver prints it")
    compute_capability: Annotated[str, Field(pattern=r"^[0-9]{1,3}\.[0-9]$", max_length=5)] = Field(
        description="CUDA compute capability, such as `8.6`"
    )
    total_bytes: DeviceBytes = Field(description="Total memory in bytes, as CUDA reports it")
    uuid: GpuUuid | None = Field(default=None, description="UUID of the GPU; null where it is not known")


class StackInput(Input):
    """The software below the engine; null or left out where a version is not known."""

    driver: Version | None = Field(default=None, description="Version of the GPU driver")
    cuda: Version | None = Field(default=None, description="Version of CUDA that PyTorch was built with")
    torch: Version | None = Field(default=None, description="Version of PyTorch")
    nccl: Version | None = Field(default=None, description="Version of NCCL")


class CacheInput(Input):
    """The cache that the engine made of the memory."""

    num_blocks: Annotated[int, Field(ge=0, le=1 << 40)] = Field(
        description="Blocks of the pool, before any override"
    )
    bytes_per_block: DeviceBytes = Field(description="Bytes of one block over all layers of a rank")
    groups: Annotated[int, Field(ge=0, le=1 << 16)] = Field(description="Number of KV cache groups")


class MeasurementInput(Input):
    """A start of the engine, measured. The job says what was started."""

    measured_at: Annotated[
        float,
        Field(
            ge=0,
            le=1e11,
            description="Seconds since the Unix epoch. The service replaces a worker's time by its own",
        ),
    ]
    device: DeviceInput = Field(description="The GPU that it was measured on")
    utilization: Annotated[float, Field(gt=0, le=1)] = Field(
        description="`gpu_memory_utilization` of the start, a share of the total memory"
    )
    ranks: Annotated[list[RankInput], Field(min_length=1, max_length=MAX_RANKS)] = Field(
        description="What each rank reported"
    )
    stack: StackInput = Field(default_factory=StackInput, description="Versions of the software below")
    cache: CacheInput | None = Field(
        default=None, description="The cache that the engine made; null where it made none"
    )
    contaminated: bool = Field(
        default=False, description="Whether something else used the GPU; such a measurement teaches nothing"
    )
    timings: dict[Annotated[str, Field(max_length=64)], Seconds] = Field(
        default_factory=dict, max_length=32, description="Seconds by phase of the start"
    )


class MeasuredModelInput(Input):
    """The model that was started."""

    id: Annotated[str, Field(min_length=1, max_length=256)]
    config: dict[str, Any]
    checkpoint_bytes: Annotated[int, Field(ge=0, le=1 << 50)] | None = None


class ExportedMeasurementInput(MeasurementInput):
    """A measurement that another service exported, with what was started."""

    schema_version: Literal[1]
    node: Annotated[str, Field(min_length=1, max_length=256)]
    release: Version
    flags: ServeInput
    model: MeasuredModelInput
    origin: Origin
    reporter: Annotated[str, Field(max_length=64, description="Id of the token that it came with")] = ""


class TimedPointInput(Input):
    """The time of one step of an engine, or of one prompt up to its first token."""

    batch: Annotated[int, Field(ge=0, le=1 << 20)] = Field(
        description="Requests that each get one token in the step; 0 for a prompt alone"
    )
    context: Annotated[int, Field(ge=0, le=1 << 30)] = Field(
        description="Tokens that each of them has; 0 for a prompt alone"
    )
    prefill: Annotated[int, Field(ge=0, le=1 << 30)] = Field(
        description="Tokens of the prompt alone; 0 for a decode step"
    )
    milliseconds: Annotated[float, Field(gt=0, le=1e9)] = Field(
        description="Median value of what was timed, in milliseconds"
    )
    timed: Annotated[int, Field(ge=1, le=1 << 20)] = Field(description="Number of steps or prompts timed")


class ResultInput(Input):
    """How a probe ended."""

    outcome: Literal["measured", "out_of_memory", "refused", "failed", "cancelled"] = Field(
        description="How it ended; `refused`: the worker did not run it, since it could have done harm"
    )
    detail: Annotated[str, Field(max_length=2000)] = Field(
        default="", description="Why nothing was measured; empty otherwise"
    )
    measurement: MeasurementInput | None = Field(
        default=None, description="What an engine probe measured; null for other kinds and other outcomes"
    )
    inventory: Annotated[list[dict[str, Any]], Field(max_length=MAX_GPUS_OF_A_NODE)] = Field(
        default_factory=list, description="The node's GPUs, for an inventory"
    )
    allocation: dict[Annotated[str, Field(max_length=64)], int | float | str | None] = Field(
        default_factory=dict, max_length=64, description="What an allocation probe took, in bytes by name"
    )
    steps: Annotated[list[TimedPointInput], Field(max_length=MAX_POINTS)] = Field(
        default_factory=list, description="What a speed probe timed; empty for other kinds"
    )
    log_excerpt: Annotated[str, Field(max_length=MAX_LOG_CHARACTERS)] = Field(
        default="", description="Lines of the engine's log that show how it ended"
    )


class ResultBody(Input):
    """A worker's result of a probe."""

    node: Node = Field(description=NODE)
    fence: Fence = Field(description=FENCE)
    result: ResultInput = Field(description="How the probe ended")


class ResultAnswer(Output):
    """The result is stored."""

    state: State = Field(description="State of the job after the result")
    digest: str = Field(description="SHA-256 of the result; the same result may be sent again")


STATES = {
    MeasurementOutcome.MEASURED: State.SUCCEEDED,
    MeasurementOutcome.OUT_OF_MEMORY: State.FAILED,
    MeasurementOutcome.FAILED: State.FAILED,
    MeasurementOutcome.REFUSED: State.REFUSED,
    MeasurementOutcome.CANCELLED: State.CANCELLED,
}
"""State of a job after each outcome."""
