"""From measurements to residuals: robust, forgetful, and never moved far by a single voice.

In a cell (what starts of one level have in common) a token has one voice a day, the median of what it handed
in, whatever it calls its nodes; what lies far from all others is kept but not used; what is old counts less.
Beside other tokens one counts as one voice, on however many days it spoke, and what it says is held within
the spread of the others. Of two tokens the one that spoke first stands, and the other is held near it. A
change of the driver's branch, of CUDA or of torch on a node makes void what was measured on that node before,
and on no other. What a revoked token measured counts where no other one measured anything.

Startup logs are the weaker witnesses: one weighs a quarter of a probe, and where probes have spoken all logs
together weigh half as much as those, so that the middle stays between what probes measured, however many logs
there are.
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
    FLOORS,
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
    reporter: str = ""
    """The token that answers for it; empty if that is not known."""
    measured_at: float = 0.0
    """Seconds since the epoch."""
    revoked: bool = False
    """Whether the token is worthless by now."""

    @property
    def speaker(self) -> str:
        """Who answers for it: a token, or else a node."""
        return self.reporter or self.node

    @property
    def age(self) -> tuple[int, float]:
        """What tells the earlier of two."""
        return self.day, self.measured_at


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
    """What one token says on one day."""

    value: float
    day: int
    weight: float
    origin: Origin
    speaker: str
    first: float
    """When it was said first, in seconds since the epoch."""


@dataclass(frozen=True, slots=True)
class _Testimony:
    """What one token says on all days."""

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
    def seniority(self) -> tuple[int, float, float, float]:
        """What the first of several has least of; of two at one moment the nearer to what is computed."""
        day, first = min((observation.day, observation.first) for observation in self.observations)
        return day, first, abs(self.middle), self.middle

    def once(self) -> "_Testimony":
        """Return it with the weight of a single voice."""
        share = max(observation.weight for observation in self.observations) / self.weight
        return _Testimony(
            tuple(
                replace(observation, weight=observation.weight * share) for observation in self.observations
            )
        )

    def within(self, low: float, high: float) -> "_Testimony":
        """Return it with values between two others."""
        return _Testimony(
            tuple(
                replace(observation, value=min(max(observation.value, low), high))
                for observation in self.observations
            )
        )


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
    for specified in samples:
        sample = replace(specified, day=min(specified.day, today))
        for level in Level:
            cells[level, sample.circumstances.key(level)].append(sample)
    residuals: dict[tuple[Level, Hashable], dict[Term, Residual]] = {}
    learned = []
    for (level, key), members in cells.items():
        current = _of_newest_stacks(_standing(members))
        for term in sorted(LEARNED_AT[level]):
            residual, set_aside = _residual(level, term, current, today)
            if residual is not None:
                residuals.setdefault((level, key), {})[term] = residual
                set_aside += len(members) - len(current)
                learned.append(_described(level, term, residual, current[-1].circumstances, set_aside))
    return Calibration(residuals), tuple(sorted(learned, key=_order))


def _standing(members: Sequence[Sample]) -> list[Sample]:
    """Return the samples of tokens that are not revoked, or all where there are no others."""
    return [sample for sample in members if not sample.revoked] or list(members)


def _of_newest_stacks(members: Sequence[Sample]) -> list[Sample]:
    """Return the samples of the latest software of each node, and those that do not tell theirs.

    What a token says of its own node voids nothing that another one measured.
    """
    newest: dict[tuple[str, str], Sample] = {}
    for sample in sorted(members, key=lambda each: each.age):
        if any(sample.branch):
            newest[sample.speaker, sample.node] = sample
    return [
        sample
        for sample in members
        if not any(sample.branch) or sample.branch == newest[sample.speaker, sample.node].branch
    ]


def _residual(level: Level, term: Term, members: Sequence[Sample], today: int) -> tuple[Residual | None, int]:
    # What several terms differ by together depends on the GPU where one of them does.
    alone = [member for member in members if level is not Level.RELEASE or term not in member.lumped]
    observations = _observations(term, alone, today)
    heard = _inliers(observations, FLOORS[level])
    weight = sum(observation.weight for observation in heard)
    if weight < LEAST_WEIGHT:
        return None, len(observations)
    middle = _weighted_median(heard)
    newest = max(observation.day for observation in heard)
    evidence = Evidence(
        level,
        len(heard),
        str(EPOCH + timedelta(days=newest)),
        age_days=max(0, today - newest),
        logs=sum(observation.origin is Origin.LOG for observation in heard),
    )
    residual = Residual(
        middle, _spread(heard), weight, evidence, _borne_out(observations, heard, FLOORS[level])
    )
    return residual, len(observations) - len(heard)


def _observations(term: Term, members: Sequence[Sample], today: int) -> list[_Observation]:
    said: dict[tuple[str, int, Origin], list[Sample]] = defaultdict(list)
    for sample in members:
        if term in sample.residuals:
            said[sample.speaker, sample.day, sample.origin].append(sample)
    return [
        _Observation(
            median(sample.residuals[term] for sample in samples),
            day,
            ORIGIN_WEIGHTS[origin] * 0.5 ** ((today - day) / HALF_LIFE_DAYS),
            origin,
            speaker,
            min(sample.measured_at for sample in samples),
        )
        for (speaker, day, origin), samples in sorted(said.items())
    ]


def _inliers(observations: Sequence[_Observation], honest: float) -> list[_Observation]:
    """Return the voices that count, each with the value and the weight that it has beside the others.

    ``honest``: standard deviation from one honest start to another.
    """
    probes = [observation for observation in observations if observation.origin is Origin.PROBE]
    logs = [observation for observation in observations if observation.origin is Origin.LOG]
    if not probes:
        return _agreed(logs, honest)
    agreed = _agreed(probes, honest)
    beside = _near(logs, agreed)
    most = LOGS_BESIDE_PROBES * sum(observation.weight for observation in agreed)
    share = min(1.0, most / sum(observation.weight for observation in beside)) if beside else 1.0
    return [*agreed, *(replace(observation, weight=observation.weight * share) for observation in beside)]


def _agreed(observations: Sequence[_Observation], honest: float) -> list[_Observation]:
    """Return the voices of one origin so that no token has more than its part in them.

    ``honest``: standard deviation from one honest start to another.
    """
    specified = [_consistent(each) for each in _by_speaker(observations)]
    specified = [each for each in specified if each.weight >= LEAST_WEIGHT] or specified
    if len(specified) >= ENOUGH_TO_OUTLIE:
        specified = _near_each_other(specified)
    if len(specified) > 1:
        specified = _held_together([each.once() for each in specified], honest)
    return [observation for each in specified for observation in each.observations]


def _held_together(specified: Sequence[_Testimony], honest: float) -> list[_Testimony]:
    """Return tokens, each within the spread of the others; of two the first stands as it is."""
    first, *others = sorted(specified, key=lambda each: each.seniority)
    if len(others) == 1:
        return [first, _held_near(others[0], [first.middle], max(first.spread, honest))]
    middles = [each.middle for each in specified]
    return [
        _held_near(each, middles[:number] + middles[number + 1 :], honest)
        for number, each in enumerate(specified)
    ]


def _held_near(specified: _Testimony, others: Sequence[float], honest: float) -> _Testimony:
    middle = median(others)
    most = max(MAD_TO_SIGMA * median(abs(other - middle) for other in others), honest)
    return specified.within(middle - most, middle + most)


def _by_speaker(observations: Sequence[_Observation]) -> list[_Testimony]:
    said: dict[str, list[_Observation]] = defaultdict(list)
    for observation in observations:
        said[observation.speaker].append(observation)
    return [_Testimony(tuple(said[speaker])) for speaker in sorted(said)]


def _consistent(specified: _Testimony) -> _Testimony:
    """Return what a token says without what lies far from all that it says else."""
    if len(specified.observations) < ENOUGH_TO_OUTLIE:
        return specified
    return _Testimony(tuple(_near(specified.observations, specified.observations)))


def _near_each_other(specified: Sequence[_Testimony]) -> list[_Testimony]:
    """Return tokens without those that lie far from the others, each counting once."""
    middle = median(each.middle for each in specified)
    deviation = max(median(abs(each.middle - middle) for each in specified), LEAST_DEVIATION)
    return [each for each in specified if abs(each.middle - middle) <= OUTLYING_MADS * deviation]


def _borne_out(
    observations: Sequence[_Observation], heard: Sequence[_Observation], honest: float
) -> tuple[float, float]:
    """Return how far below and above what is computed at least two of the tokens that are heard measured.

    ``honest``: by how much the two may differ.
    """
    speakers = {observation.speaker for observation in heard}
    middles = sorted(
        each.middle for each in _by_speaker(observations) if each.observations[0].speaker in speakers
    )
    if len(middles) < 2:  # noqa: PLR2004 - two tokens
        return 0.0, 0.0
    return min(0.0, middles[1] - honest), max(0.0, middles[-2] + honest)


def _spread(observations: Sequence[_Observation]) -> float:
    """Return the standard deviation of voices around their middle, robustly."""
    middle = _weighted_median(observations)
    return MAD_TO_SIGMA * median(abs(observation.value - middle) for observation in observations)


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
