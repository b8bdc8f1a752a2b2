"""Corrects the computed terms of a budget by measurements of real starts.

The difference between a measurement and the computed value of the same start is a residual. The plan of
another start is shifted by the residuals of the most similar level. The computed term and the residual are
combined as two normal distributions, so the more certain of them has the larger weight.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import sqrt
from typing import Any, Final, assert_never

from service.architecture.model import ModelArchitecture
from service.memory.budget_estimator import REMAINDER
from service.memory.budget_inputs import BudgetInputs
from service.memory.budget_types import (
    Basis,
    Estimate,
    Evidence,
    Level,
    MemoryBudget,
)
from service.memory.interval import difference
from service.units import GIB, MIB

TENTH: Final = 1.2816
"""Standard deviations between the middle and the 10th percentile of a normal distribution."""
PRIOR_SIGMA: Final = GIB / 2
"""The least standard deviation of a computed term when it is combined with measurements, in bytes."""
LONE_REACH: Final = 3 * PRIOR_SIGMA
"""The most bytes by which the measurements of one token alone move a term, unless the term's interval is
wider. Starts of one laboratory differ by at most 0.85 GiB from the computed values (47 starts of vLLM 0.19.0
on an H100)."""
FLOORS: Final = {Level.EXACT: 50 * MIB, Level.GPU: 100 * MIB, Level.RELEASE: 300 * MIB}
"""The least standard deviation between starts in bytes, even if all measurements agree."""


SAME_GPU: Final = frozenset({Level.EXACT, Level.GPU})
"""Levels whose spread between measured starts stands for what terms do not explain on a GPU type."""


class Term(StrEnum):
    """A term of the budget that is measured."""

    WEIGHTS = "weights"
    ACTIVATION = "activation"
    NON_TORCH = "non_torch"
    CUDA_GRAPHS = "cuda_graphs"


LEARNED_AT: Final[Mapping[Level, frozenset[Term]]] = {
    Level.EXACT: frozenset(Term),
    # Weights depend on the model, so those of another model say nothing.
    Level.GPU: frozenset({Term.ACTIVATION, Term.NON_TORCH, Term.CUDA_GRAPHS}),
    # Memory of libraries depends on the GPU.
    Level.RELEASE: frozenset({Term.ACTIVATION, Term.CUDA_GRAPHS}),
}


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What decides which measurements are evidence for a start."""

    architecture: ModelArchitecture
    inputs: BudgetInputs
    gpu_name: str
    """The name that the driver prints."""
    kv_cache_dtype: str
    block_size: int | None

    def key(self, level: Level) -> Hashable:
        """Return the key of a level: starts with equal keys are evidence for each other."""
        inputs = self.inputs
        release = inputs.release.release[:2]
        match level:
            case Level.EXACT:
                # The terms do not depend on the requested part of the device.
                alike = replace(
                    inputs,
                    total=_ANY,
                    gpu_memory_utilization=0.0,
                    kv_cache_memory_bytes=None,
                    free_memory_bytes=None,
                )
                return (self.gpu_name, self.kv_cache_dtype, self.block_size, alike, self.architecture)
            case Level.GPU:
                several, staged = inputs.tensor_parallel_size > 1, inputs.pipeline_parallel_size > 1
                return (self.gpu_name, release, several, staged)
            case Level.RELEASE:
                return (release, inputs.v2_model_runner)
        assert_never(level)


_ANY: Final = Estimate(0, 0, 0, Basis.GIVEN, "")


@dataclass(frozen=True, slots=True)
class Residual:
    """Measured less computed bytes of a term."""

    middle: float
    spread: float
    """Standard deviation between measurements, as a robust estimate."""
    weight: float
    """Number of measurements; older ones count for less."""
    evidence: Evidence
    borne_out: tuple[float, float] = (0.0, 0.0)
    """The range of residuals that the measurements of at least two tokens confirm: low, high."""

    @property
    def variance(self) -> float:
        """The variance of the middle."""
        return max(self.spread, FLOORS[self.evidence.level]) ** 2 / self.weight


@dataclass(frozen=True, slots=True)
class Calibration:
    """Residuals by level, key and term."""

    residuals: Mapping[tuple[Level, Hashable], Mapping[Term, Residual]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.residuals)

    def applied(self, budget: MemoryBudget, circumstances: Circumstances) -> MemoryBudget:
        """Return a budget with every term shifted by the measurements of the most similar starts."""
        found = self._nearest(circumstances)
        if not found:
            return budget
        terms: dict[str, Any] = {
            term.value: _shifted(getattr(budget, term.value), found.get(term)) for term in Term
        }
        nearest = min((each.evidence for each in found.values()), key=lambda each: _ORDER[each.level])
        if nearest.level in SAME_GPU:
            terms["unexplained"] = replace(budget.unexplained, low=0, high=0)
        if budget.available_kv.basis is not Basis.GIVEN:
            parts = ({"unexplained": budget.unexplained} | terms).values()
            left = difference(budget.requested, parts, REMAINDER)
            terms["available_kv"] = replace(left, evidence=nearest)
        return replace(budget, **terms)

    def _nearest(self, circumstances: Circumstances) -> Mapping[Term, Residual]:
        found: dict[Term, Residual] = {}
        for level in Level:
            residuals = self.residuals.get((level, circumstances.key(level)), {})
            for term in LEARNED_AT[level]:
                if term in residuals:
                    found.setdefault(term, residuals[term])
        return found


NOTHING_LEARNED: Final = Calibration()
HELD: Final = ", limited because only one token measured it"
_ORDER: Final = {level: number for number, level in enumerate(Level)}


def _shifted(term: Estimate, residual: Residual | None) -> Estimate:
    """Return the combination of a computed term and a residual, each by its weight."""
    if residual is None or (term.low == term.high and term.basis is Basis.COMPUTED and not term.bytes):
        return term
    exact = residual.evidence.level is Level.EXACT
    middle = _held(term, residual)
    held = middle != residual.middle
    # A probe of the same start replaces the computed term. Logs only shift it, even those of the same start.
    resolved = exact and not residual.evidence.by_logs_alone
    own = (term.high - term.low) / 2 / TENTH
    prior = max(own, PRIOR_SIGMA) ** 2
    share = 1.0 if resolved else prior / (prior + residual.variance)
    # The residual of another model differs at least by as much as two measurements of one model.
    others = 0.0 if exact else FLOORS[residual.evidence.level] ** 2
    sigma = sqrt(share * residual.variance + others)
    if not exact and own:
        sigma = min(sigma, own)
    if held:
        sigma = max(own, PRIOR_SIGMA)
    size = max(0, round(term.bytes + share * middle))
    return replace(
        term,
        bytes=size,
        low=max(0, size - round(TENTH * sigma)),
        high=size + round(TENTH * sigma),
        basis=Basis.MEASURED if resolved and not held else Basis.CALIBRATED,
        source=f"{term.source}; {_words(residual.evidence)}{HELD if held else ''}",
        evidence=residual.evidence,
    )


def _held(term: Estimate, residual: Residual) -> float:
    """Return a residual, limited to ``LONE_REACH``, or to what two tokens confirm if that is more."""
    low, high = residual.borne_out
    down = min(-LONE_REACH, term.low - term.bytes, low)
    up = max(LONE_REACH, term.high - term.bytes, high)
    return min(max(residual.middle, down), up)


def _words(evidence: Evidence) -> str:
    of = {
        Level.EXACT: "the same start",
        Level.GPU: "other models on this GPU type and release",
        Level.RELEASE: "other GPU types with this release",
    }
    times = "once" if evidence.count == 1 else f"{evidence.count} times"
    logs = f" ({evidence.logs} by startup logs)" if evidence.logs else ""
    return f"measured {times}{logs} on {of[evidence.level]}, last on {evidence.newest}"
