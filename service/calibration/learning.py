"""Computes residuals from measurements, cell by cell: a cell has the starts that are equal at one level.

- Each reporter (a token) contributes at most one observation per day: the median of its measurements of that
  day, whatever names it gives its nodes. Older observations have less weight (half after `HALF_LIFE_DAYS`).
- If a node changes the branch of its driver, CUDA or torch, older measurements of that node are not used.
- Measurements of a revoked token are used only if no other token has measurements.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import astuple, dataclass, replace
from datetime import date, timedelta
from statistics import median
from typing import Final

from service.calibration.measurement import Origin
from service.calibration.reports import (
    LEAST_WEIGHT,
    Observation,
    confirmed_range,
    inliers_among,
    spread_of,
    weighted_median,
)
from service.calibration.samples import Sample
from service.memory.budget_types import Evidence, Level
from service.memory.calibration import (
    FLOORS,
    LEARNED_AT,
    Calibration,
    Circumstances,
    Residual,
    Term,
)

HALF_LIFE_DAYS: Final = 90
ORIGIN_WEIGHTS: Final = {Origin.PROBE: 1.0, Origin.LOG: 0.25}
EPOCH: Final = date(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class Learned:
    """The residual of one term in one cell, as it is shown to people."""

    level: Level
    gpu: str | None
    """Name of the GPU; None at the level of a release."""
    release: str
    model: str | None
    """Class of the model; None except at the exact level."""
    tensor_parallel: bool | None
    """Whether there are several ranks; None at the level of a release."""
    term: Term
    residual: Residual
    set_aside: int
    """Observations that were not used: outliers, and those of an older software stack."""


def learn(samples: Iterable[Sample], today: int) -> tuple[Calibration, tuple[Learned, ...]]:
    """Return the calibration learned from samples, and its residuals as they are shown to people.

    ``today``: days since the epoch. A day after today counts as today.
    """
    cells: dict[tuple[Level, Hashable], list[Sample]] = defaultdict(list)
    for each in samples:
        sample = replace(each, day=min(each.day, today))
        for level in Level:
            cells[level, sample.circumstances.key(level)].append(sample)
    residuals: dict[tuple[Level, Hashable], dict[Term, Residual]] = {}
    learned = []
    for (level, key), members in cells.items():
        current = _of_newest_stack(_not_revoked(members))
        for term in sorted(LEARNED_AT[level]):
            residual, set_aside = _residual(level, term, current, today)
            if residual is not None:
                residuals.setdefault((level, key), {})[term] = residual
                set_aside += len(members) - len(current)
                learned.append(_described(level, term, residual, current[-1].circumstances, set_aside))
    return Calibration(residuals), tuple(sorted(learned, key=_order))


def _not_revoked(members: Sequence[Sample]) -> list[Sample]:
    """Return the samples of tokens that are not revoked; all samples if every token is revoked."""
    return [sample for sample in members if not sample.revoked] or list(members)


def _of_newest_stack(members: Sequence[Sample]) -> list[Sample]:
    """Return the samples of each node's latest software stack, and those whose stack is unknown.

    Nodes of different reporters are different nodes, so that a reporter cannot remove another's samples.
    """
    newest: dict[tuple[str, str], Sample] = {}
    for sample in sorted(members, key=lambda each: each.age):
        if any(sample.branch):
            newest[sample.reporter_or_node, sample.node] = sample
    return [
        sample
        for sample in members
        if not any(sample.branch) or sample.branch == newest[sample.reporter_or_node, sample.node].branch
    ]


def _residual(level: Level, term: Term, members: Sequence[Sample], today: int) -> tuple[Residual | None, int]:
    # A lumped residual contains terms that depend on the GPU, so it is not used for all GPUs of a release.
    usable = [member for member in members if level is not Level.RELEASE or term not in member.lumped]
    observations = _observations(term, usable, today)
    inliers = inliers_among(observations, FLOORS[level])
    weight = sum(observation.weight for observation in inliers)
    if weight < LEAST_WEIGHT:
        return None, len(observations)
    middle = weighted_median(inliers)
    newest = max(observation.day for observation in inliers)
    evidence = Evidence(
        level,
        len(inliers),
        str(EPOCH + timedelta(days=newest)),
        age_days=max(0, today - newest),
        logs=sum(observation.origin is Origin.LOG for observation in inliers),
    )
    confirmed = confirmed_range(observations, inliers, FLOORS[level])
    residual = Residual(middle, spread_of(inliers), weight, evidence, confirmed)
    return residual, len(observations) - len(inliers)


def _observations(term: Term, members: Sequence[Sample], today: int) -> list[Observation]:
    groups: dict[tuple[str, int, Origin], list[Sample]] = defaultdict(list)
    for sample in members:
        if term in sample.residuals:
            groups[sample.reporter_or_node, sample.day, sample.origin].append(sample)
    return [
        Observation(
            median(sample.residuals[term] for sample in samples),
            day,
            ORIGIN_WEIGHTS[origin] * 0.5 ** ((today - day) / HALF_LIFE_DAYS),
            origin,
            reporter_or_node,
            min(sample.measured_at for sample in samples),
        )
        for (reporter_or_node, day, origin), samples in sorted(groups.items())
    ]


def _described(
    level: Level, term: Term, residual: Residual, circumstances: Circumstances, set_aside: int
) -> Learned:
    inputs = circumstances.inputs
    exact = level is Level.EXACT
    minor = ".".join(map(str, inputs.release.release[:2]))
    return Learned(
        level=level,
        gpu=None if level is Level.RELEASE else circumstances.gpu_name,
        release=str(inputs.release) if exact else minor,
        model=circumstances.architecture.class_name if exact else None,
        tensor_parallel=None if level is Level.RELEASE else inputs.tensor_parallel_size > 1,
        term=term,
        residual=residual,
        set_aside=set_aside,
    )


def _order(learned: Learned) -> tuple[str, ...]:
    return tuple(map(str, astuple(learned)))
