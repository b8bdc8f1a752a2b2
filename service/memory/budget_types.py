"""The memory budget of one rank: its terms in bytes, and how certain each is."""

from dataclasses import dataclass, field, replace
from enum import StrEnum


class Basis(StrEnum):
    """How a number was obtained."""

    MEASURED = "measured"
    CALIBRATED = "calibrated"
    COMPUTED = "computed"
    ASSUMED = "assumed"
    GIVEN = "given"
    """The caller gave it."""


class Level(StrEnum):
    """How similar the measured starts are to the planned one."""

    EXACT = "exact"
    """The same model, flags, release and GPU type."""
    GPU = "gpu_and_release"
    """Other models on the same GPU type with the same minor release, both on one rank or both on several."""
    RELEASE = "release"
    """Other GPU types with the same minor release and model runner."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """The measurements behind a term."""

    level: Level
    count: int
    """Number of measurements, at most one for each token and day."""
    newest: str
    """Day of the latest one, as in ``2026-05-01``."""
    age_days: int
    logs: int = 0
    """How many of them are startup logs, which are weaker evidence than probes."""

    @property
    def by_logs_alone(self) -> bool:
        """Whether all measurements are startup logs, none a probe."""
        return self.logs == self.count


@dataclass(frozen=True, slots=True)
class Estimate:
    """Bytes with their 10th and 90th percentile.

    Raises:
        ValueError: the bytes are not between the percentiles.
    """

    bytes: int
    low: int
    high: int
    basis: Basis
    source: str
    evidence: Evidence | None = field(default=None, kw_only=True)
    """``None``: no measurement was used."""

    def __post_init__(self) -> None:
        if not self.low <= self.bytes <= self.high:
            raise ValueError(f"{self.bytes} is not between {self.low} and {self.high}")


@dataclass(frozen=True, slots=True)
class WeightsEstimate(Estimate):
    """Weights of the fullest rank, after post-load repacking."""

    parameter_bytes: int = 0
    """What the rank allocates before post-load repacking."""


@dataclass(frozen=True, slots=True)
class HostDemand:
    """Memory of the host that the flags ask for, of all ranks on all nodes together."""

    weights: Estimate
    """Weights that the GPUs do not hold."""
    blocks: Estimate
    """Blocks of the cache that the GPUs no longer hold."""
    adapters: Estimate
    media_cache: Estimate
    """Processed images, videos and sound."""
    sleeping_weights: Estimate
    """Weights while the engine sleeps."""
    total: Estimate


@dataclass(frozen=True)
class MemoryBudget:
    """Memory of one rank while the engine starts, in the order of allocation."""

    total: Estimate
    """What CUDA reports as the device's total."""
    requested: Estimate
    """The part of the total that ``gpu_memory_utilization`` grants to the engine."""
    free: Estimate
    """Free memory when the engine starts; the engine refuses to start if it is less than ``requested``."""
    weights: WeightsEstimate
    activation: Estimate
    compiled_copy: Estimate
    """The part of ``activation`` that is left out by a start whose compiled code is cached."""
    non_torch: Estimate
    cuda_graphs: Estimate
    """Memory set aside before the cache is sized; zero in releases that set nothing aside."""
    captured_graphs: Estimate
    """Memory of the captured graphs. They are captured after the cache is allocated, so a release that sets
    nothing aside exceeds ``requested`` by them."""
    unexplained: Estimate
    """By how much ``available_kv`` may be wrong beside these terms: zero, with bounds."""
    available_kv: Estimate
    """Memory that remains for the cache; may be negative."""
    adapters: Estimate
    """Room for LoRA adapters, which is a part of ``weights``."""
    host: HostDemand
    """Memory of the host, of all ranks together."""

    def __hash__(self) -> int:
        # Budgets are keys of caches; these are enough for a fast hash that differs for most budgets.
        return hash((self.total.bytes, self.weights.bytes, self.available_kv.bytes))


NOTHING_CACHED = "no layer has a cache: the engine profiles nothing and sets up none"


def without_cache(budget: MemoryBudget) -> MemoryBudget:
    """Return the budget of an encoder: nothing is set aside before a cache, and nothing remains for one.

    Source: vLLM 0.10.2 to 0.33.0, EngineCore._initialize_kv_caches.
    """
    none = Estimate(0, 0, 0, Basis.COMPUTED, NOTHING_CACHED)
    return replace(budget, cuda_graphs=none, available_kv=none)
