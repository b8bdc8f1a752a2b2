"""From measurements to residuals: robust, forgetful, and never moved by a single voice.

In a cell (what starts of one level have in common) a node has one voice a day, the median of what it
measured; what lies far from all others is kept but not used; what is old counts less; a change of the
driver's branch, of CUDA or of torch makes what came before void. Startup logs are the weaker witnesses: one
weighs a quarter of a probe, and where probes have spoken all logs together weigh half as much as those, so
that the middle stays between what probes measured, however many logs there are.
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
from service.memory.budget import Estimate, Evidence, Level
from service.memory.calibration import (
    LEARNED_AT,
    Calibration,
    Circumstances,
    Residual,
    Term,
)
from service.units import MIB

MAD_TO_SIGMA: Final = 1.4826
"""A normal distribution's standard deviation in median absolute deviations."""
OUTLYING_MADS: Final = 5
LEAST_DEVIATION: Final = 20 * MIB
"""The engine's logs have two decimals of a GiB; less than two of their units is no deviation."""
ENOUGH_TO_OUTLIE: Final = 3
HALF_LIFE_DAYS: Final = 90
LEAST_WEIGHT: Final = 0.05
"""Less than that is forgotten: one measurement after more than a year."""
ORIGIN_WEIGHTS: Final = {Origin.PROBE: 1.0, Origin.LOG: 0.25}
LOGS_BESIDE_PROBES: Final = 0.5
"""What all logs of a cell weigh at most, of what its probes weigh: never the half that a middle needs."""
EPOCH: Final = date(1970, 1, 1)

Branch = tuple[str | None, str | None, str | None]


@dataclass(frozen=True, slots=True)
class Sample:
    """One measurement beside what is computed for it."""

    circumstances: Circumstances
    residuals: Mapping[Term, int]
    """Bytes measured above those computed."""
    node: str
    day: int
    """Days since the epoch."""
    origin: Origin = Origin.PROBE
    branch: Branch = (None, None, None)
    lumped: frozenset[Term] = frozenset()
    """Terms that were not told one by one, but in their sum alone."""


@dataclass(frozen=True, slots=True)
class Learned:
    """What one cell says of one term, for people."""

    level: Level
    gpu: str | None
    release: str
    model: str | None
    """Class of the model, where it matters."""
    tensor_parallel: bool | None
    """On several ranks, where it matters."""
    term: Term
    residual: Residual
    set_aside: int
    """Voices that were not used: outliers, and those of an older stack."""


@dataclass(frozen=True, slots=True)
class _Observation:
    """What one node says on one day."""

    value: float
    day: int
    weight: float
    origin: Origin


def sample_of(measurement: Measurement, prediction: Prediction) -> Sample | None:
    """Return a measurement as something to learn from; ``None`` where it must not be, or says nothing."""
    specified = _residuals(measurement.fullest, prediction)
    if measurement.contaminated or implausible(measurement) or not specified:
        return None
    lumped = _lumped(measurement.fullest, prediction, specified)
    return Sample(
        circumstances=prediction.circumstances,
        residuals={**specified, **lumped},
        node=measurement.node,
        day=measurement.day,
        origin=measurement.origin,
        branch=measurement.stack.branch,
        lumped=frozenset(lumped),
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


def _lumped(rank: RankReadings, prediction: Prediction, specified: Mapping[Term, int]) -> dict[Term, int]:
    """Return the residuals of terms that were not told one by one, by what is left for the cache.

    That is what is requested less all terms, so that it tells their sum; of what they differ by together each
    is given a part, the more the less sure it is.
    """
    unset = [term for term in (Term.ACTIVATION, Term.NON_TORCH, Term.CUDA_GRAPHS) if term not in specified]
    if rank.available_kv is None or Term.WEIGHTS not in specified or not unset:
        return {}
    budget = prediction.budget
    rest = budget.available_kv.bytes - rank.available_kv.bytes - sum(specified.values())
    doubts = {term: _doubt(getattr(budget, term.value)) for term in unset}
    parts = {term: rest * doubt // (sum(doubts.values()) or 1) for term, doubt in doubts.items()}
    return {**parts, unset[0]: parts[unset[0]] + rest - sum(parts.values())}


def _doubt(estimate: Estimate) -> int:
    return estimate.high - estimate.low


def learn(samples: Iterable[Sample], today: int) -> tuple[Calibration, tuple[Learned, ...]]:
    """Return what samples say about later starts, and the same for people.

    ``today``: days since the epoch.
    """
    cells: dict[tuple[Level, Hashable], list[Sample]] = defaultdict(list)
    for sample in samples:
        for level in Level:
            cells[level, sample.circumstances.key(level)].append(sample)
    residuals: dict[tuple[Level, Hashable], dict[Term, Residual]] = {}
    learned = []
    for (level, key), members in cells.items():
        current = _of_newest_stack(members)
        for term in sorted(LEARNED_AT[level]):
            residual, set_aside = _residual(level, term, current, today)
            if residual is not None:
                residuals.setdefault((level, key), {})[term] = residual
                set_aside += len(members) - len(current)
                learned.append(_described(level, term, residual, current[-1].circumstances, set_aside))
    return Calibration(residuals), tuple(sorted(learned, key=_order))


def _of_newest_stack(members: Sequence[Sample]) -> list[Sample]:
    """Return the samples of the software of the latest one, and those that do not tell theirs."""
    specified = [sample for sample in members if any(sample.branch)]
    if not specified:
        return list(members)
    newest = max(specified, key=lambda sample: sample.day).branch
    return [sample for sample in members if sample.branch == newest or not any(sample.branch)]


def _residual(level: Level, term: Term, members: Sequence[Sample], today: int) -> tuple[Residual | None, int]:
    # What several terms differ by together depends on the GPU where one of them does.
    alone = [member for member in members if level is not Level.RELEASE or term not in member.lumped]
    observations = _observations(term, alone, today)
    heard = _inliers(observations)
    weight = sum(observation.weight for observation in heard)
    if weight < LEAST_WEIGHT:
        return None, len(observations)
    middle = _weighted_median(heard)
    spread = MAD_TO_SIGMA * median(abs(observation.value - middle) for observation in heard)
    newest = max(observation.day for observation in heard)
    evidence = Evidence(
        level,
        len(heard),
        str(EPOCH + timedelta(days=newest)),
        age_days=max(0, today - newest),
        logs=sum(observation.origin is Origin.LOG for observation in heard),
    )
    return Residual(middle, spread, weight, evidence), len(observations) - len(heard)


def _observations(term: Term, members: Sequence[Sample], today: int) -> list[_Observation]:
    said: dict[tuple[str, int, Origin], list[int]] = defaultdict(list)
    for sample in members:
        if term in sample.residuals:
            said[sample.node, sample.day, sample.origin].append(sample.residuals[term])
    return [
        _Observation(
            median(values),
            day,
            ORIGIN_WEIGHTS[origin] * 0.5 ** (max(0, today - day) / HALF_LIFE_DAYS),
            origin,
        )
        for (_, day, origin), values in sorted(said.items())
    ]


def _inliers(observations: Sequence[_Observation]) -> list[_Observation]:
    """Return the voices that count, each with the weight that it has beside the others."""
    probes = [observation for observation in observations if observation.origin is Origin.PROBE]
    logs = [observation for observation in observations if observation.origin is Origin.LOG]
    if not probes:
        return _near(logs, logs) if len(logs) >= ENOUGH_TO_OUTLIE else logs
    agreed = _near(probes, probes) if len(probes) >= ENOUGH_TO_OUTLIE else probes
    beside = _near(logs, agreed)
    most = LOGS_BESIDE_PROBES * sum(observation.weight for observation in agreed)
    share = min(1.0, most / sum(observation.weight for observation in beside)) if beside else 1.0
    return [*agreed, *(replace(observation, weight=observation.weight * share) for observation in beside)]


def _near(observations: Sequence[_Observation], reporters: Sequence[_Observation]) -> list[_Observation]:
    """Return the voices without those that lie far from what witnesses say."""
    middle = median(observation.value for observation in reporters)
    deviation = max(median(abs(observation.value - middle) for observation in reporters), LEAST_DEVIATION)
    return [
        observation
        for observation in observations
        if abs(observation.value - middle) <= OUTLYING_MADS * deviation
    ]


def _weighted_median(observations: Sequence[_Observation]) -> float:
    """Return the value with as much weight below it as above."""
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
