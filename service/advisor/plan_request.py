"""A request for a plan: which model, which engine, which GPU types, which flags."""

from dataclasses import dataclass, field
from enum import StrEnum

from service.architecture.model import ModelArchitecture
from service.engines.flags import ServeFlags
from service.gpus.gpu_type import GpuType
from service.memory.calibration import NOTHING_LEARNED, Calibration


class Objective(StrEnum):
    """By what candidates are ranked."""

    ACCURACY = "accuracy"
    """Never a lossy cache if a lossless one starts."""
    TOKENS = "tokens"
    """The most capacity."""
    BALANCED = "balanced"
    """The least lossy cache that serves the workload."""


@dataclass(frozen=True, slots=True)
class Workload:
    """The requests that the engine is to serve."""

    prompt_tokens: int
    output_tokens: int = 0
    concurrent_requests: int = 1


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """An engine release with patches on top."""

    version: str | None = None
    """``None`` takes the newest release that is modelled."""
    patches: tuple[str, ...] = ()
    name: str = "vllm"
    compared: tuple[str, ...] = ()
    """Versions to compare, each with the next."""


@dataclass(frozen=True, slots=True)
class Model:
    """A model, read."""

    id: str
    revision: str | None
    """Commit sha, where known."""
    source: str
    """``hub``, ``bundled`` or ``inline``."""
    architecture: ModelArchitecture
    checkpoint_bytes: int | None = None
    """Bytes of all tensors of the checkpoint, if the Hub or the snapshot gives them."""
    note: str | None = None
    requested_revision: str | None = None
    """The branch, tag or commit of the request; ``None`` for the engine's default."""
    stale: bool = False
    """Whether the Hub did not answer, so that an earlier answer of the Hub is used."""


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """One dry run."""

    model: Model
    gpus: tuple[GpuType, ...]
    engine: EngineChoice = EngineChoice()
    serve: ServeFlags = field(default_factory=ServeFlags)
    workload: Workload | None = None
    objective: Objective = Objective.BALANCED
    free_memory_bytes: int | None = None
    """Bytes free on every GPU when the engine starts; ``None`` for all memory except the CUDA context."""
    with_levers: bool = False
    """Whether to find levers, which takes about thirty dry runs for each GPU type."""
    calibration: Calibration = NOTHING_LEARNED
    """What real GPUs measured, to correct estimates."""
