"""What a cell's reporters say, weighed so that outliers and single reporters cannot move it far.

- Outliers are stored but not used.
- If there are several reporters, each has the total weight of one observation, on however many days it
  reported, and its values are clamped to the spread of the others. Of two reporters the earlier one is not
  changed, and the values of the other are clamped to a range around it.

Startup logs are weaker evidence than probes. A log has a quarter of a probe's weight. If there are probes,
all logs together have at most half the weight of the probes, so that the median stays between the values of
the probes, however many logs there are.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Final

from service.calibration.measurement import Origin
from service.units import MIB

MAD_TO_SIGMA: Final = 1.4826
"""Standard deviation of a normal distribution, in median absolute deviations (MAD)."""
OUTLYING_MADS: Final = 5
"""A value further from the median than this many MADs is an outlier."""
LEAST_DEVIATION: Final = 20 * MIB
"""Least MAD that is used. The engine's logs have two decimals of a GiB: smaller deviations are rounding."""
LEAST_FOR_OUTLIERS: Final = 3
"""Least number of values among which outliers are looked for."""
LEAST_WEIGHT: Final = 0.05
"""Observations with less weight in total are not used: one measurement reaches it after more than a year."""
LOGS_TO_PROBES: Final = 0.5
"""Weight of all logs of a cell at most, as a share of the weight of its probes.

It is below one, so that the weighted median stays between the values of the probes.
"""


@dataclass(frozen=True, slots=True)
class Observation:
    """One reporter's value of one day."""

    value: float
    day: int
    weight: float
    origin: Origin
    reporter_or_node: str
    first: float
    """Time of the reporter's first measurement of that day, in seconds since the epoch."""


@dataclass(frozen=True, slots=True)
class Report:
    """All observations of one reporter in a cell."""

    observations: tuple[Observation, ...]

    @property
    def middle(self) -> float:
        """The weighted median."""
        return weighted_median(self.observations)

    @property
    def weight(self) -> float:
        """The weight of all observations together."""
        return sum(observation.weight for observation in self.observations)

    @property
    def spread(self) -> float:
        """The standard deviation around the median."""
        return spread_of(self.observations)

    @property
    def order(self) -> tuple[int, float, float, float]:
        """Sort key: the earliest reporter first; at equal times the one nearest to the computed value."""
        day, first = min((observation.day, observation.first) for observation in self.observations)
        return day, first, abs(self.middle), self.middle

    def with_unit_weight(self) -> "Report":
        """Return the same observations, with the total weight of the heaviest one."""
        share = max(observation.weight for observation in self.observations) / self.weight
        return Report(
            tuple(
                replace(observation, weight=observation.weight * share) for observation in self.observations
            )
        )

    def clamped(self, low: float, high: float) -> "Report":
        """Return the same observations with their values clamped to an interval."""
        return Report(
            tuple(
                replace(observation, value=min(max(observation.value, low), high))
                for observation in self.observations
            )
        )


def inliers_among(observations: Sequence[Observation], deviation_floor: float) -> list[Observation]:
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


def _balanced(observations: Sequence[Observation], deviation_floor: float) -> list[Observation]:
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


def _clamp_to_others(reports: Sequence[Report], deviation_floor: float) -> list[Report]:
    """Return the reports, each clamped to the spread of the others; of two, the earlier is not changed."""
    first, *others = sorted(reports, key=lambda each: each.order)
    if len(others) == 1:
        return [first, _clamp(others[0], [first.middle], max(first.spread, deviation_floor))]
    middles = [each.middle for each in reports]
    return [
        _clamp(each, middles[:number] + middles[number + 1 :], deviation_floor)
        for number, each in enumerate(reports)
    ]


def _clamp(report: Report, others: Sequence[float], deviation_floor: float) -> Report:
    """Return a report with its values clamped to one standard deviation around the median of others."""
    middle = median(others)
    most = max(MAD_TO_SIGMA * median(abs(other - middle) for other in others), deviation_floor)
    return report.clamped(middle - most, middle + most)


def _reports(observations: Sequence[Observation]) -> list[Report]:
    groups: dict[str, list[Observation]] = defaultdict(list)
    for observation in observations:
        groups[observation.reporter_or_node].append(observation)
    return [Report(tuple(groups[reporter_or_node])) for reporter_or_node in sorted(groups)]


def _without_own_outliers(report: Report) -> Report:
    """Return a report without the observations that are outliers among its own."""
    if len(report.observations) < LEAST_FOR_OUTLIERS:
        return report
    return Report(tuple(_inliers_of(report.observations, report.observations)))


def _without_outliers(reports: Sequence[Report]) -> list[Report]:
    """Return the reports without those whose median is an outlier; each report counts with_unit_weight."""
    middle = median(each.middle for each in reports)
    deviation = max(median(abs(each.middle - middle) for each in reports), LEAST_DEVIATION)
    return [each for each in reports if abs(each.middle - middle) <= OUTLYING_MADS * deviation]


def confirmed_range(
    observations: Sequence[Observation], inliers: Sequence[Observation], deviation_floor: float
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


def spread_of(observations: Sequence[Observation]) -> float:
    """Return the standard deviation of observations around their weighted median, computed from the MAD."""
    middle = weighted_median(observations)
    return MAD_TO_SIGMA * median(abs(observation.value - middle) for observation in observations)


def _inliers_of(observations: Sequence[Observation], reference: Sequence[Observation]) -> list[Observation]:
    """Return the observations that are not outliers by the median and the MAD of a reference."""
    middle = median(observation.value for observation in reference)
    deviation = max(median(abs(observation.value - middle) for observation in reference), LEAST_DEVIATION)
    return [
        observation
        for observation in observations
        if abs(observation.value - middle) <= OUTLYING_MADS * deviation
    ]


def weighted_median(observations: Sequence[Observation]) -> float:
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
