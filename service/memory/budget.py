"""What each byte of a rank goes to, and how sure that is."""

from dataclasses import dataclass
from enum import StrEnum


class Basis(StrEnum):
    """Where a number comes from."""

    MEASURED = "measured"
    CALIBRATED = "calibrated"
    COMPUTED = "computed"
    ASSUMED = "assumed"
    GIVEN = "given"
    """The caller said so."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """Bytes with their 10th and 90th percentile."""

    bytes: int
    low: int
    high: int
    basis: Basis
    source: str

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
    """Zero in releases that do not set graph memory aside."""
    available_kv: Estimate
    """What is left for the cache; may be negative."""
