"""What a worker can be asked to do: a closed schema, from which it builds every argument itself."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Literal

from service.calibration.measurement import MeasuredModel
from service.units import GIB

MAX_WALL_SECONDS: Final = 3600
DEFAULT_WALL_SECONDS: Final = 900
NOT_PROBED: Final = frozenset({"kv_cache_memory_bytes", "num_gpu_blocks_override", "speculative_config"})
"""Flags that no engine probe takes: two replace what is to be measured, one names files of a draft."""


class ProbeKind(StrEnum):
    """Kinds of probes, from the gentlest on."""

    INVENTORY = "inventory"
    """Reads the driver's library; no CUDA context, no memory."""
    ALLOC = "alloc"
    """Allocates the planned weights and cache with torch alone."""
    ENGINE = "engine"
    """Starts the real engine with weights that are made up."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where a job may run; what is ``None`` does not matter."""

    gpu_name: str | None = None
    """As the driver prints it."""
    gpu_uuid: str | None = None
    label: str | None = None
    """A word that the worker was started with."""
    engine_release: str | None = None
    """The release that an engine probe is about; the worker must have it installed."""
    gpus: int = 1
    """GPUs of the same type that it takes at once."""


@dataclass(frozen=True, slots=True)
class ProbeLimits:
    """What a job may take."""

    wall_seconds: int = DEFAULT_WALL_SECONDS
    max_bytes: int | None = None
    """Device memory of one GPU; ``None`` leaves the reserve as the only bound."""
    reserve_bytes: int | None = None
    """Device memory to leave free; never less than what the worker itself reserves."""
    force: bool = False
    """Run beside others, if the worker's own settings allow that too."""


@dataclass(frozen=True, slots=True)
class Inventory:
    """Say which GPUs there are."""

    kind: Literal[ProbeKind.INVENTORY] = ProbeKind.INVENTORY


@dataclass(frozen=True, slots=True)
class Alloc:
    """Allocate what was planned for one rank, in bytes."""

    weights: tuple[int, ...]
    """Sizes of the tensors that stand for the weights."""
    kv_tensors: tuple[int, ...]
    """Sizes of the cache's tensors."""
    kind: Literal[ProbeKind.ALLOC] = ProbeKind.ALLOC

    @property
    def bytes(self) -> int:
        """What all tensors take."""
        return sum(self.weights) + sum(self.kv_tensors)


@dataclass(frozen=True, slots=True)
class Engine:
    """Start the engine on a model of made-up weights."""

    model: MeasuredModel
    flags: Mapping[str, Any]
    """Flags of the engine by its own names, from the same closed list as a plan's."""
    release: str
    tensor_parallel_size: int
    pipeline_parallel_size: int
    blocks: int
    """What the cache is cut down to; the engine measures as if it were not."""
    bytes: int
    """What one rank is expected to take at most, to find out beforehand whether it fits."""
    kind: Literal[ProbeKind.ENGINE] = ProbeKind.ENGINE

    @property
    def ranks(self) -> int:
        """GPUs that it takes."""
        return self.tensor_parallel_size * self.pipeline_parallel_size


Work = Inventory | Alloc | Engine
CONTEXT_BYTES: Final = GIB
"""What a process takes of a GPU before its first tensor, at most (0.51 GiB on an H100)."""


@dataclass(frozen=True, slots=True)
class JobSpec:
    """One probe as it was asked for."""

    work: Work
    target: Target = Target()
    limits: ProbeLimits = ProbeLimits()
    predicted: Mapping[str, Any] = field(default_factory=dict)
    """What the plan said when the probe was asked for: ``memory`` and ``kv_cache`` of a candidate."""
