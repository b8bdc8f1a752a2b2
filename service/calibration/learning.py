"""Computes residuals from measurements: robust against outliers, and no single reporter can move them far.

A cell is the set of measurements whose starts are equal at one level. In a cell:

- Each reporter (a token) contributes at most one observation per day: the median of its measurements of that
  day, whatever names it gives its nodes.
- Outliers are stored but not used. Older observations have less weight (half after `HALF_LIFE_DAYS`).
- If there are several reporters, each has the total weight of one observation, on however many days it
  reported, and its values are clamped to the spread of the others. Of two reporters the earlier one is not
  changed, and the values of the other are clamped to a range around it.
- If a node changes the branch of its driver, CUDA or torch, older measurements of that node are not used.
- Measurements of a revoked token are used only if no other token has measurements.

Startup logs are weaker evidence than probes. A log has a quarter of a probe's weight. If there are probes,
all logs together have at most half the weight of the probes, so that the median stays between the values of
the probes, however many logs there are.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from datetime import date, timedelta
from statistics import median
from typing import Final

from service.calibration.measurement import (
    Measurement,
    Origin,
    RankReadings,
    TermReading,
)
from service.calibration.plausibility import implausible
from service.calibration.prediction import Prediction
from service.memory.budget_types import Estimate, Evidence, Level
from service.memory.calibration import (
    FLOORS,
    LEARNED_AT,
    Calibration,
    Circumstances,
    Residual,
    Term,
)
from service.units import MIB

MAD_TO_SIGMA: Final = 1.4826
"""Standard deviation of a normal distribution, in median absolute deviations (MAD)."""
OUTLYING_MADS: Final = 5
"""A value further from the median than this many MADs is an outlier."""
LEAST_DEVIATION: Final = 20 * MIB
"""Least MAD that is used. The engine's logs have two decimals of a GiB: smaller deviations are rounding."""
LEAST_FOR_OUTLIERS: Final = 3
"""Least number of values among which outliers are looked for."""
HALF_LIFE_DAYS: Final = 90
LEAST_WEIGHT: Final = 0.05
"""Observations with less weight in total are not used: one measurement reaches it after more than a year."""
ORIGIN_WEIGHTS: Final = {Origin.PROBE: 1.0, Origin.LOG: 0.25}
LOGS_TO_PROBES: Final = 0.5
"""Weight of all logs of a cell at most, as a share of the weight of its probes.

It is below one, so that the weighted median stays between the values of the probes.
"""
EPOCH: Final = date(1970, 1, 1)

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


@dataclass(frozen=True, slots=True)
class _Observation:
    """One reporter's value of one day."""

    value: float
    day: int
    weight: float
    origin: Origin
    reporter_or_node: str
    first: float
    """Time of the reporter's first measurement of that day, in seconds since the epoch."""


@dataclass(frozen=True, slots=True)
class _Report:
    """All observations of one reporter in a cell."""

    observations: tuple[_Observation, ...]

    @property
    def middle(self) -> float:
        return _weighted_median(self.observations)

    @property
    def weight(self) -> float:
        return sum(observation.weight for observation in self.observations)

    @property
    def spread(self) -> float:
        return _spread(self.observations)

    @property
    def order(self) -> tuple[int, float, float, float]:
        """Sort key: the earliest reporter first; at equal times the one nearest to the computed value."""
        day, first = min((observation.day, observation.first) for observation in self.observations)
        return day, first, abs(self.middle), self.middle

    def with_unit_weight(self) -> "_Report":
        """Return the same observations, with the total weight of the heaviest one."""
        share = max(observation.weight for observation in self.observations) / self.weight
        return _Report(
            tuple(
                replace(observation, weight=observation.weight * share) for observation in self.observations
            )
        )

    def clamped(self, low: float, high: float) -> "_Report":
        """Return the same observations with their values clamped to an interval."""
        return _Report(
            tuple(
                replace(observation, value=min(max(observation.value, low), high))
                for observation in self.observations
            )
        )


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
    inliers = _inliers(observations, FLOORS[level])
    weight = sum(observation.weight for observation in inliers)
    if weight < LEAST_WEIGHT:
        return None, len(observations)
    middle = _weighted_median(inliers)
    newest = max(observation.day for observation in inliers)
    evidence = Evidence(
        level,
        len(inliers),
        str(EPOCH + timedelta(days=newest)),
        age_days=max(0, today - newest),
        logs=sum(observation.origin is Origin.LOG for observation in inliers),
    )
    confirmed = _confirmed_range(observations, inliers, FLOORS[level])
    residual = Residual(middle, _spread(inliers), weight, evidence, confirmed)
    return residual, len(observations) - len(inliers)


def _observations(term: Term, members: Sequence[Sample], today: int) -> list[_Observation]:
    groups: dict[tuple[str, int, Origin], list[Sample]] = defaultdict(list)
    for sample in members:
        if term in sample.residuals:
            groups[sample.reporter_or_node, sample.day, sample.origin].append(sample)
    return [
        _Observation(
            median(sample.residuals[term] for sample in samples),
            day,
            ORIGIN_WEIGHTS[origin] * 0.5 ** ((today - day) / HALF_LIFE_DAYS),
            origin,
            reporter_or_node,
            min(sample.measured_at for sample in samples),
        )
        for (reporter_or_node, day, origin), samples in sorted(groups.items())
    ]


def _inliers(observations: Sequence[_Observation], deviation_floor: float) -> list[_Observation]:
    """Return the observations that are used, with the values and weights that they have among the others.

    ``deviation_floor``: standard deviation in bytes from one correct measurement to another.
    """
    probes = [observation for observation in observations if observation.origin is Origin.PROBE]
    logs = [observation for observation in observations if observation.origin is Origin.LOG]
    if not probes:
        return _balanced(logs, deviation_floor)
    balanced = _balanced(probes, deviation_floor)
    near = _inliers_of(logs, balanced)
    most = LOGS_TO_PROBES * sum(observation.weight for observation in balanced)
    share = min(1.0, most / sum(observation.weight for observation in near)) if near else 1.0
    return [*balanced, *(replace(observation, weight=observation.weight * share) for observation in near)]


def _balanced(observations: Sequence[_Observation], deviation_floor: float) -> list[_Observation]:
    """Return the observations of one origin, balanced so that each reporter has the weight of one.

    ``deviation_floor``: standard deviation in bytes from one correct measurement to another.
    """
    reports = [_without_own_outliers(each) for each in _reports(observations)]
    reports = [each for each in reports if each.weight >= LEAST_WEIGHT] or reports
    if len(reports) >= LEAST_FOR_OUTLIERS:
        reports = _without_outliers(reports)
    if len(reports) > 1:
        reports = _clamp_to_others([each.with_unit_weight() for each in reports], deviation_floor)
    return [observation for each in reports for observation in each.observations]


def _clamp_to_others(reports: Sequence[_Report], deviation_floor: float) -> list[_Report]:
    """Return the reports, each clamped to the spread of the others; of two, the earlier is not changed."""
    first, *others = sorted(reports, key=lambda each: each.order)
    if len(others) == 1:
        return [first, _clamp(others[0], [first.middle], max(first.spread, deviation_floor))]
    middles = [each.middle for each in reports]
    return [
        _clamp(each, middles[:number] + middles[number + 1 :], deviation_floor)
        for number, each in enumerate(reports)
    ]


def _clamp(report: _Report, others: Sequence[float], deviation_floor: float) -> _Report:
    """Return a report with its values clamped to one standard deviation around the median of others."""
    middle = median(others)
    most = max(MAD_TO_SIGMA * median(abs(other - middle) for other in others), deviation_floor)
    return report.clamped(middle - most, middle + most)


def _reports(observations: Sequence[_Observation]) -> list[_Report]:
    groups: dict[str, list[_Observation]] = defaultdict(list)
    for observation in observations:
        groups[observation.reporter_or_node].append(observation)
    return [_Report(tuple(groups[reporter_or_node])) for reporter_or_node in sorted(groups)]


def _without_own_outliers(report: _Report) -> _Report:
    """Return a report without the observations that are outliers among its own."""
    if len(report.observations) < LEAST_FOR_OUTLIERS:
        return report
    return _Report(tuple(_inliers_of(report.observations, report.observations)))


def _without_outliers(reports: Sequence[_Report]) -> list[_Report]:
    """Return the reports without those whose median is an outlier; each report counts with_unit_weight."""
    middle = median(each.middle for each in reports)
    deviation = max(median(abs(each.middle - middle) for each in reports), LEAST_DEVIATION)
    return [each for each in reports if abs(each.middle - middle) <= OUTLYING_MADS * deviation]


def _confirmed_range(
    observations: Sequence[_Observation], inliers: Sequence[_Observation], deviation_floor: float
) -> tuple[float, float]:
    """Return how far below and above the computed value at least two reporters of inliers measured, in bytes.

    ``deviation_floor``: by how much the two may differ, in bytes.
    """
    reporters = {observation.reporter_or_node for observation in inliers}
    middles = sorted(
        each.middle for each in _reports(observations) if each.observations[0].reporter_or_node in reporters
    )
    if len(middles) < 2:  # noqa: PLR2004 - two reporters
        return 0.0, 0.0
    return min(0.0, middles[1] - deviation_floor), max(0.0, middles[-2] + deviation_floor)


def _spread(observations: Sequence[_Observation]) -> float:
    """Return the standard deviation of observations around their weighted median, computed from the MAD."""
    middle = _weighted_median(observations)
    return MAD_TO_SIGMA * median(abs(observation.value - middle) for observation in observations)


def _inliers_of(
    observations: Sequence[_Observation], reference: Sequence[_Observation]
) -> list[_Observation]:
    """Return the observations that are not outliers by the median and the MAD of a reference."""
    middle = median(observation.value for observation in reference)
    deviation = max(median(abs(observation.value - middle) for observation in reference), LEAST_DEVIATION)
    return [
        observation
        for observation in observations
        if abs(observation.value - middle) <= OUTLYING_MADS * deviation
    ]


def _weighted_median(observations: Sequence[_Observation]) -> float:
    """Return the weighted median: the value with as much weight below it as above it."""
    ordered = sorted(observations, key=lambda observation: observation.value)
    half, below = sum(observation.weight for observation in ordered) / 2, 0.0
    for index, observation in enumerate(ordered):
        below += observation.weight
        if below > half:
            return observation.value
        if below == half:
            return (observation.value + ordered[index + 1].value) / 2
    return ordered[-1].value


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
