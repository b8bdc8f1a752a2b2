"""What a probe was planned to take, and what it measured, in answers about probes."""

from typing import Any, Literal, Self

from pydantic import Field, ValidationError

from service.application.schemas.answers.kv_cache import KvCacheAnswer
from service.application.schemas.answers.memory import MemoryAnswer
from service.application.schemas.base import Output
from service.calibration.measurement import MeasurementOutcome, Origin
from service.probes.lifecycle import Job
from service.serialization import RESULT


class PlannedPointAnswer(Output):
    """The planned time of one step of the engine, or of one prompt up to its first token."""

    batch: int = Field(description="Requests that each get one token in the step; 0 for a prompt alone")
    context: int = Field(description="Tokens that each of them has; 0 for a prompt alone")
    prefill: int = Field(description="Tokens of the prompt alone; 0 for a decode step")
    milliseconds: float = Field(description="Expected value, in milliseconds")
    low: float = Field(description="Least value of the interval, in milliseconds")
    high: float = Field(description="Greatest value of the interval, in milliseconds")


class TimedPointAnswer(Output):
    """The measured time of one step of the engine, or of one prompt up to its first token."""

    batch: int = Field(description="Requests that each get one token in the step; 0 for a prompt alone")
    context: int = Field(description="Tokens that each of them has; 0 for a prompt alone")
    prefill: int = Field(description="Tokens of the prompt alone; 0 for a decode step")
    milliseconds: float = Field(description="Median value of what was timed, in milliseconds")
    timed: int = Field(description="Number of steps or prompts that were timed")


class PredictedAnswer(Output):
    """What the plan said when the probe was asked for."""

    memory: MemoryAnswer | None = Field(
        description="Memory of one rank, term by term; null for `inventory`, and where another version of "
        "this service planned it"
    )
    kv_cache: KvCacheAnswer | None = Field(
        description="The cache that the engine makes of its memory; null as for `memory`"
    )
    block_size: int | None = Field(description="Tokens of one block; null as for `memory`")
    steps: list[PlannedPointAnswer] = Field(
        default_factory=list, description="Planned times of what a speed probe times; empty for other kinds"
    )

    @classmethod
    def of(cls, job: Job) -> Self:
        """Return what was planned for a job; figures that are stored in an older form are null."""
        nothing = {"memory": None, "kv_cache": None, "block_size": None}
        try:
            return cls.model_validate({**nothing, **job.spec.predicted})
        except ValidationError:
            return cls.model_validate(nothing)


class TermReadingAnswer(Output):
    """A number of bytes, and where it comes from."""

    bytes: int = Field(description="The number of bytes")
    how: Literal["measured", "parsed", "derived"] = Field(
        description="`measured` by the engine or the driver, `parsed` from the log, `derived` from others"
    )


class MeasuredRankAnswer(Output):
    """What one rank of the engine reported of its memory; null where the release does not report it."""

    free_before: TermReadingAnswer | None = Field(
        description="Free when the engine first looks, after CUDA's context was made; null: not reported"
    )
    requested: TermReadingAnswer | None = Field(
        description="What `gpu_memory_utilization` grants to the engine; null: not reported"
    )
    weights: TermReadingAnswer | None = Field(description="The loaded weights; null: not reported")
    activation: TermReadingAnswer | None = Field(
        description="Activations at the peak of the profile run; null: not reported"
    )
    non_torch: TermReadingAnswer | None = Field(
        description="Memory beside PyTorch's allocator; null: not reported"
    )
    graphs_estimated: TermReadingAnswer | None = Field(
        description="Set aside for CUDA graphs before the cache was sized; null: not reported"
    )
    graphs: TermReadingAnswer | None = Field(description="What captured CUDA graphs took; null: not reported")
    available_kv: TermReadingAnswer | None = Field(description="Left for the KV cache; null: not reported")


class MeasuredDeviceAnswer(Output):
    """The GPU that was measured."""

    name: str = Field(description="Name as the driver prints it")
    compute_capability: str = Field(description="CUDA compute capability, such as `8.6`")
    total_bytes: int = Field(description="Total memory in bytes, as CUDA reports it")
    uuid: str | None = Field(description="UUID of the GPU; null where it is not known")


class MeasuredStackAnswer(Output):
    """The software below the engine."""

    driver: str | None = Field(description="Version of the GPU driver; null where it is not known")
    cuda: str | None = Field(
        description="Version of CUDA that PyTorch was built with; null where it is not known"
    )
    torch: str | None = Field(description="Version of PyTorch; null where it is not known")
    nccl: str | None = Field(description="Version of NCCL; null where it is not known")


class MeasuredModelAnswer(Output):
    """The model that was started."""

    id: str = Field(description="Id of the model, or the name given beside a config")
    config: dict[str, Any] = Field(description="Its config.json")
    checkpoint_bytes: int | None = Field(
        description="Bytes of all tensors of the checkpoint; null where they are not known"
    )


class MeasuredCacheAnswer(Output):
    """The cache that the engine made."""

    num_blocks: int = Field(description="Blocks of the pool, before any override")
    bytes_per_block: int = Field(description="Bytes of one block over all layers of a rank")
    groups: int = Field(description="Number of KV cache groups")


class ProbeMeasurementAnswer(Output):
    """What a start of the engine took."""

    node: str = Field(description="Name of the node")
    measured_at: float = Field(description="When the service got the result, in seconds since the Unix epoch")
    device: MeasuredDeviceAnswer = Field(description="The GPU that was measured")
    release: str = Field(description="Release of the engine")
    flags: dict[str, Any] = Field(description="Flags by the engine's own names; others had their defaults")
    utilization: float = Field(description="`gpu_memory_utilization` of the start, a share of the total")
    model: MeasuredModelAnswer = Field(description="The model that was started")
    ranks: list[MeasuredRankAnswer] = Field(description="What each rank reported")
    stack: MeasuredStackAnswer = Field(description="Versions of the software below the engine")
    cache: MeasuredCacheAnswer | None = Field(
        description="The cache that the engine made; null where it made none"
    )
    origin: Origin = Field(description="Whether a probe or a log gave it")
    contaminated: bool = Field(
        description="Whether something else used the GPU; such a measurement teaches nothing"
    )
    timings: dict[str, float] = Field(description="Seconds by phase of the start")
    reporter: str = Field(description="Id of the token that it came with; empty where it is not known")
    schema_version: int = Field(description="Version of the form in which measurements are exported")


class ProbeResultAnswer(Output):
    """How a probe ended."""

    outcome: MeasurementOutcome = Field(
        description="How it ended; `refused`: the worker did not run it, since it could have done harm"
    )
    detail: str = Field(description="Why nothing was measured; empty otherwise")
    measurement: ProbeMeasurementAnswer | None = Field(
        description="What an engine probe measured; null for other kinds and other outcomes"
    )
    inventory: list[dict[str, Any]] = Field(description="The node's GPUs; empty for other kinds")
    allocation: dict[str, Any] = Field(
        description="What an allocation probe took, in bytes by name; empty for other kinds"
    )
    steps: list[TimedPointAnswer] = Field(
        default_factory=list, description="What a speed probe timed; empty for other kinds"
    )
    log_excerpt: str = Field(description="Lines of the engine's log that show how it ended")

    @classmethod
    def of(cls, job: Job) -> Self | None:
        """Return the result of a job; None where no worker sent one."""
        return None if job.result is None else cls.model_validate(RESULT.validate_json(job.result))
