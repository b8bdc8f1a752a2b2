"""What one measurement teaches: measured less computed bytes, term by term."""

from collections.abc import Mapping
from dataclasses import dataclass

from service.calibration.measurement import (
    Measurement,
    Origin,
    RankReadings,
    TermReading,
)
from service.calibration.plausibility import implausible
from service.calibration.prediction import Prediction
from service.memory.budget_types import Estimate
from service.memory.calibration import Circumstances, Term

Branch = tuple[str | None, str | None, str | None]


@dataclass(frozen=True, slots=True)
class Sample:
    """The residuals of one measurement."""

    circumstances: Circumstances
    residuals: Mapping[Term, int]
    """Measured minus computed bytes, by term."""
    node: str
    day: int
    """Days since the epoch."""
    origin: Origin = Origin.PROBE
    branch: Branch = (None, None, None)
    lumped: frozenset[Term] = frozenset()
    """Terms of which only the sum was measured; it is apportioned among them."""
    reporter: str = ""
    """Id of the token that reported it; empty if unknown."""
    measured_at: float = 0.0
    """Seconds since the epoch."""
    revoked: bool = False
    """Whether the token has been revoked."""

    @property
    def reporter_or_node(self) -> str:
        """Who reported it: the token, else the node."""
        return self.reporter or self.node

    @property
    def age(self) -> tuple[int, float]:
        """Sort key by time, the earliest first."""
        return self.day, self.measured_at


def sample_of(measurement: Measurement, prediction: Prediction) -> Sample | None:
    """Return the residuals of a measurement.

    ``None`` if the measurement is contaminated or implausible, or has none of the terms.
    """
    residuals = _residuals(measurement.fullest, prediction)
    if measurement.contaminated or implausible(measurement) or not residuals:
        return None
    lumped = _lumped(measurement.fullest, prediction, residuals)
    return Sample(
        circumstances=prediction.circumstances,
        residuals={**residuals, **lumped},
        node=measurement.node,
        day=measurement.day,
        origin=measurement.origin,
        branch=measurement.stack.branch,
        lumped=frozenset(lumped),
        reporter=measurement.reporter,
        measured_at=measurement.measured_at,
    )


def _residuals(rank: RankReadings, prediction: Prediction) -> dict[Term, int]:
    budget = prediction.budget
    measured: dict[Term, TermReading | None] = {
        Term.WEIGHTS: rank.weights,
        Term.ACTIVATION: rank.activation,
        Term.NON_TORCH: rank.non_torch,
        Term.CUDA_GRAPHS: rank.graphs_estimated,
    }
    return {
        term: reading.bytes - getattr(budget, term.value).bytes
        for term, reading in measured.items()
        if reading is not None
    }


def _lumped(rank: RankReadings, prediction: Prediction, measured: Mapping[Term, int]) -> dict[Term, int]:
    """Return the residuals of the terms that were not measured one by one.

    The memory left for the cache is the requested memory minus all terms, so it gives the sum of the terms
    that are missing. The residual of this sum is apportioned by the width of each term's interval.
    """
    missing = [term for term in (Term.ACTIVATION, Term.NON_TORCH, Term.CUDA_GRAPHS) if term not in measured]
    if rank.available_kv is None or Term.WEIGHTS not in measured or not missing:
        return {}
    budget = prediction.budget
    rest = budget.available_kv.bytes - rank.available_kv.bytes - sum(measured.values())
    widths = {term: _width(getattr(budget, term.value)) for term in missing}
    parts = {term: rest * width // (sum(widths.values()) or 1) for term, width in widths.items()}
    return {**parts, missing[0]: parts[missing[0]] + rest - sum(parts.values())}


def _width(estimate: Estimate) -> int:
    return estimate.high - estimate.low
