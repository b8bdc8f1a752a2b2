"""What each byte of a rank goes to, and how sure that is."""

from dataclasses import dataclass, field
from enum import StrEnum


class Basis(StrEnum):
    """Where a number comes from."""

    MEASURED = "measured"
    CALIBRATED = "calibrated"
    COMPUTED = "computed"
    ASSUMED = "assumed"
    GIVEN = "given"
    """The caller said so."""


class Level(StrEnum):
    """How near to what is planned the measurements are that a term was learned from."""

    EXACT = "exact"
    """The same model, flags, release and GPU type."""
    GPU = "gpu_and_release"
    """Other models on the same GPU type with the same minor release, on one rank or on several alike."""
    RELEASE = "release"
    """Other GPU types with the same minor release and model runner."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """The measurements behind a term."""

    level: Level
    count: int
    """Measurements, at most one for each token and day."""
    newest: str
    """Day of the latest one, as in ``2026-05-01``."""
    age_days: int
    logs: int = 0
    """Of these, startup logs: weaker evidence than probes."""

    @property
    def by_logs_alone(self) -> bool:
        """Whether no probe measured it."""
        return self.logs == self.count


@dataclass(frozen=True, slots=True)
class Estimate:
    """Bytes with their 10th and 90th percentile."""

    bytes: int
    low: int
    high: int
    basis: Basis
    source: str
    evidence: Evidence | None = field(default=None, kw_only=True)
    """``None`` where nothing was measured."""

    def __post_init__(self) -> None:
        if not self.low <= self.bytes <= self.high:
            raise ValueError(f"{self.bytes} is not between {self.low} and {self.high}")


@dataclass(frozen=True, slots=True)
class WeightsEstimate(Estimate):
    """Weights of the fullest rank."""

    parameter_bytes: int = 0
    """What the rank allocates before post-load repacking."""


@dataclass(frozen=True, slots=True)
class MemoryBudget:
    """Memory of one rank while the engine starts, in the order it is taken."""

    total: Estimate
    """What CUDA reports as the device's total."""
    requested: Estimate
    """The share that ``gpu_memory_utilization`` grants to the engine."""
    free: Estimate
    """What is free when the engine starts: it must not be less than what is requested."""
    weights: WeightsEstimate
    activation: Estimate
    non_torch: Estimate
    cuda_graphs: Estimate
    """Set aside before the cache is sized; zero in releases that do not."""
    captured_graphs: Estimate
    """What graphs take in the end, once the cache stands: beyond the request where nothing is set aside."""
    available_kv: Estimate
    """What is left for the cache; may be negative."""
