"""A question: which model, which engine, which GPUs, which flags."""

from dataclasses import dataclass, field, replace
from enum import StrEnum

from service.architecture.model import ModelArchitecture
from service.engines.flags import ServeFlags
from service.engines.releases import ResolvedRelease, resolve_release
from service.gpus.gpu_type import GpuType
from service.memory.calibration import NOTHING_LEARNED, Calibration


class Objective(StrEnum):
    """What the best candidate is best at."""

    ACCURACY = "accuracy"
    """Never a lossy cache while a lossless one starts."""
    TOKENS = "tokens"
    """The most capacity."""
    BALANCED = "balanced"
    """The least lossy cache that serves the workload."""


@dataclass(frozen=True, slots=True)
class Workload:
    """What the service is for."""

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
    """Versions between which to tell what changes, in this order."""
    doubt: str | None = None
    """Why the plan may not hold for the version that was given; ``None`` where there is no doubt."""

    def resolve(self) -> ResolvedRelease:
        """Return the release to plan, with the doubt about it.

        Raises:
            UnknownRelease: the version is not modelled.
        """
        found = resolve_release(self.version)
        return found if self.doubt is None else replace(found, doubt=self.doubt)


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
    """Bytes of all tensors of the checkpoint, where the Hub or the snapshot tells."""
    note: str | None = None
    requested_revision: str | None = None
    """The branch, tag or commit that was asked for; none for what the engine takes by itself."""
    stale: bool = False
    """Whether the Hub could not be asked anew and an earlier answer of its stands in."""


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
    """Bytes free on every GPU when the engine starts; ``None`` for all but the CUDA context."""
    with_levers: bool = False
    """Whether to work out levers, which takes some thirty starts for each GPU type."""
    calibration: Calibration = NOTHING_LEARNED
    """What was measured on real GPUs."""
