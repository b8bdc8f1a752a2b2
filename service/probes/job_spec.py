"""JobSpec: the work that a worker runs. The schema is closed; the worker builds every argument from it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Literal

from service.calibration.measurement import MeasuredModel
from service.engines.flags import KEYS_OF
from service.units import GIB

MAX_WALL_SECONDS: Final = 3600
DEFAULT_WALL_SECONDS: Final = 900
NOT_PROBED: Final = frozenset(
    {
        "kv_cache_memory_bytes",
        "num_gpu_blocks_override",
        "speculative_config",
        "hf_overrides",
        "rope_scaling",
        "rope_theta",
        "environment",
        *KEYS_OF,
    }
)
"""Flags that an engine probe does not accept: two replace what it measures, one names a draft's files, the
others change the config or the engine's environment, or are keys of a JSON argument.
"""


class ProbeKind(StrEnum):
    """Kinds of probes, in order of the resources that they use."""

    INVENTORY = "inventory"
    """Reads the GPUs from the driver's library, without a CUDA context and without device memory."""
    ALLOC = "alloc"
    """Allocates the planned weights and cache with torch, without the engine."""
    ENGINE = "engine"
    """Starts the real engine with dummy weights."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where a job may run. A field that is ``None`` does not restrict it."""

    gpu_name: str | None = None
    """Name of the GPU as the driver prints it."""
    gpu_uuid: str | None = None
    label: str | None = None
    """A label that the worker must have (``--label``)."""
    engine_release: str | None = None
    """The engine's release for an engine probe; the worker must have it installed."""
    gpus: int = 1
    """Number of GPUs of the same type that the job uses at once."""


@dataclass(frozen=True, slots=True)
class ProbeLimits:
    """Limits of a job."""

    wall_seconds: int = DEFAULT_WALL_SECONDS
    """Wall clock time of the job in seconds."""
    max_bytes: int | None = None
    """Device memory that the job may use on one GPU; ``None`` leaves the reserve as the only limit."""
    reserve_bytes: int | None = None
    """Device memory to leave free on each GPU; at least the worker's own reserve is left free."""
    force: bool = False
    """Run even if other processes use the GPU; the worker's settings must allow it too."""


@dataclass(frozen=True, slots=True)
class Inventory:
    """List the node's GPUs."""

    kind: Literal[ProbeKind.INVENTORY] = ProbeKind.INVENTORY


@dataclass(frozen=True, slots=True)
class Alloc:
    """Allocate the tensors that were planned for one rank."""

    weights: tuple[int, ...]
    """Bytes of the tensors that represent the weights."""
    kv_tensors: tuple[int, ...]
    """Bytes of the cache's tensors."""
    kind: Literal[ProbeKind.ALLOC] = ProbeKind.ALLOC

    @property
    def bytes(self) -> int:
        """Bytes of all tensors together."""
        return sum(self.weights) + sum(self.kv_tensors)


@dataclass(frozen=True, slots=True)
class TimingPoint:
    """What an engine is timed at: a decode step of a batch, or a prompt alone."""

    batch: int = 0
    """Requests that each get one token in a step; 0 for a prompt alone."""
    context: int = 0
    """Tokens that each of them has."""
    prefill: int = 0
    """Tokens of the prompt alone; 0 for a decode step."""


@dataclass(frozen=True, slots=True)
class Engine:
    """Start the engine on a model with dummy weights."""

    model: MeasuredModel
    flags: Mapping[str, Any]
    """The engine's flags by its own names, from the same closed list as a plan's flags."""
    release: str
    tensor_parallel_size: int
    pipeline_parallel_size: int
    blocks: int
    """The number of cache blocks is limited to this. The engine measures the available memory before that."""
    bytes: int
    """Upper bound of the bytes that one rank is expected to use, to check in advance whether it fits."""
    points: tuple[TimingPoint, ...] = ()
    """What is timed once the engine has started; none for a probe of its memory alone."""
    kind: Literal[ProbeKind.ENGINE] = ProbeKind.ENGINE

    @property
    def ranks(self) -> int:
        """Number of GPUs that the engine uses."""
        return self.tensor_parallel_size * self.pipeline_parallel_size


Work = Inventory | Alloc | Engine
CONTEXT_BYTES: Final = GIB
"""Upper bound of the memory that a process uses on a GPU before its first tensor (0.51 GiB on an H100)."""


@dataclass(frozen=True, slots=True)
class Question:
    """What was asked for, for people who look at the job. Workers do not see it."""

    model: str | None = None
    """Id of the model, or the name given beside a config."""
    revision: str | None = None
    gpu_id: str | None = None
    """Id of the planned GPU type; the given name for a GPU of the caller's own."""
    engine_release: str | None = None
    """The planned release, also for probes without an engine."""
    flags: Mapping[str, Any] = field(default_factory=dict)
    """The engine's flags by its own names, as given."""
    requester: str | None = None
    """Name of the token that asked."""


@dataclass(frozen=True, slots=True)
class JobSpec:
    """One requested probe."""

    work: Work
    target: Target = Target()
    limits: ProbeLimits = ProbeLimits()
    predicted: Mapping[str, Any] = field(default_factory=dict)
    """``memory`` and ``kv_cache`` of the plan's candidate at the time of the request."""
    question: Question = Question()
    """Empty for jobs that an older version of this service stored."""

    @property
    def asked_kind(self) -> Literal["inventory", "alloc", "engine", "speed"]:
        """What was asked for: workers run ``speed`` as an engine probe with points to time."""
        timed = isinstance(self.work, Engine) and bool(self.work.points)
        return "speed" if timed else self.work.kind.value
