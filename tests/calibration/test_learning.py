"""What measurements teach: hand-worked cells, and laws."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.calibration.learning import (
    Branch,
    Learned,
    Sample,
    learn,
    sample_of,
)
from service.calibration.measurement import Origin, RankReadings, TermReading
from service.calibration.prediction import NotPredicted, predict
from service.memory.budget import Basis, Estimate, Level
from service.memory.calibration import Term
from service.units import GIB, MIB
from tests.calibration.campaign import campaign

TODAY = 20_600
STARTUP, MEASURED = campaign()[0]
CIRCUMSTANCES = predict(MEASURED).circumstances


def sample(mib: float, day: int = TODAY, node: str = "n", **other: object) -> Sample:
    plain = Sample(CIRCUMSTANCES, {Term.NON_TORCH: round(mib * MIB)}, node, day)
    return replace(plain, **other)  # type: ignore[arg-type]


def cell(samples: list[Sample], level: Level = Level.GPU, term: Term = Term.NON_TORCH) -> Learned | None:
    learned = learn(samples, TODAY)[1]
    return next((each for each in learned if (each.level, each.term) == (level, term)), None)


def specified(samples: list[Sample]) -> Learned:
    found = cell(samples)
    assert found is not None
    return found


def test_a_node_has_one_voice_a_day() -> None:
    many = [sample(900, node="loud") for _ in range(50)]
    found = specified([*many, sample(100, node="a"), sample(110, node="b")])
    assert found.residual.evidence.count + found.set_aside == 3
    # The median of 100, 110 and 900, the last of which lies far off and is not used.
    assert (found.residual.middle, found.set_aside) == (105 * MIB, 1)


def test_the_spread_is_robust() -> None:
    """Worked by hand: deviations from 120 are 20, 10, 0, 10 and 20: their median is 10."""
    found = specified([sample(mib, node=str(mib)) for mib in (100, 110, 120, 130, 140)])
    assert found.residual.middle == 120 * MIB
    assert found.residual.spread == pytest.approx(1.4826 * 10 * MIB)
    assert found.residual.weight == 5


def test_what_is_old_counts_less_and_is_forgotten() -> None:
    """After 90 days a half, after 180 a quarter: 200 has 1, the two of 100 have 0.5 together."""
    old = [sample(100, TODAY - 180, node) for node in ("a", "b")]
    found = specified([*old, sample(200, node="c")])
    assert found.residual.middle == 200 * MIB
    assert found.residual.weight == pytest.approx(1.5)
    assert found.residual.evidence.age_days == 0
    assert cell([sample(100, TODAY - 400)]) is None


def test_a_change_of_the_stack_makes_older_measurements_void() -> None:
    old: Branch = ("570", "12.8", "2.9.0")
    new: Branch = ("580", "13.0", "2.11.0")
    earlier = [sample(100, TODAY - 3, str(number), branch=old) for number in range(5)]
    found = specified([*earlier, sample(300, TODAY - 1, branch=new)])
    assert (found.residual.middle, found.residual.evidence.count, found.set_aside) == (300 * MIB, 1, 5)


def test_a_log_counts_less_than_a_probe() -> None:
    """Three of 1/4 each are more than half of a probe, and half of it is all that they weigh beside it."""
    logs = [sample(150, node=str(number), origin=Origin.LOG) for number in range(3)]
    alone = specified(logs)
    assert (alone.residual.middle, alone.residual.weight) == (150 * MIB, 0.75)
    found = specified([*logs, sample(100, node="probed")])
    assert found.residual.middle == 100 * MIB
    assert found.residual.weight == pytest.approx(1.5)
    assert (found.residual.evidence.count, found.residual.evidence.logs) == (4, 3)


def test_logs_far_from_what_probes_say_are_set_aside() -> None:
    logs = [sample(900, node=str(number), origin=Origin.LOG) for number in range(50)]
    found = specified([*logs, sample(100, node="probed")])
    assert (found.residual.middle, found.residual.evidence.count, found.set_aside) == (100 * MIB, 1, 50)


@given(
    probes=st.lists(st.integers(-500, 500), min_size=1, max_size=4),
    logs=st.lists(st.integers(-2000, 2000), max_size=40),
)
def test_no_number_of_logs_outvotes_the_probes(probes: list[int], logs: list[int]) -> None:
    samples = [sample(mib, node=f"p{number}") for number, mib in enumerate(probes)]
    samples += [sample(mib, node=f"l{number}", origin=Origin.LOG) for number, mib in enumerate(logs)]
    found = specified(samples)
    assert min(probes) * MIB <= found.residual.middle <= max(probes) * MIB
    without = specified(samples[: len(probes)])
    assert without.residual.weight <= found.residual.weight <= 1.5 * without.residual.weight


def test_a_log_of_the_very_start_moves_a_term_less_than_a_probe_and_leaves_more_doubt() -> None:
    """Worked by hand: the prior's deviation is 512 MiB, that of one log 50 / sqrt(1/4) = 100 MiB."""
    budget = predict(MEASURED).budget
    computed = budget.non_torch

    def after(origin: Origin) -> Estimate:
        calibration, _ = learn([sample(300, origin=origin)], TODAY)
        return calibration.applied(budget, CIRCUMSTANCES).non_torch

    probed, logged = after(Origin.PROBE), after(Origin.LOG)
    assert (probed.bytes, probed.basis) == (computed.bytes + 300 * MIB, Basis.MEASURED)
    share = 512**2 / (512**2 + 100**2)
    assert logged.bytes == pytest.approx(computed.bytes + share * 300 * MIB, abs=1)
    assert logged.basis is Basis.CALIBRATED
    assert logged.high - logged.low > 1.5 * (probed.high - probed.low)
    assert logged.evidence is not None
    assert (logged.evidence.level, logged.evidence.count, logged.evidence.logs) == (Level.EXACT, 1, 1)


def test_weights_are_learned_for_the_very_start_alone() -> None:
    weighed = sample(0, residuals={Term.WEIGHTS: 5 * MIB})
    assert cell([weighed], Level.EXACT, Term.WEIGHTS) is not None
    assert cell([weighed], Level.GPU, Term.WEIGHTS) is None
    assert cell([weighed], Level.RELEASE, Term.WEIGHTS) is None


def test_what_libraries_take_is_not_carried_to_other_gpus() -> None:
    assert cell([sample(100)], Level.RELEASE) is None
    active = sample(0, residuals={Term.ACTIVATION: 5 * MIB})
    assert cell([active], Level.RELEASE, Term.ACTIVATION) is not None


def test_a_contaminated_measurement_teaches_nothing() -> None:
    assert sample_of(MEASURED, predict(MEASURED)) is not None
    assert sample_of(replace(MEASURED, contaminated=True), predict(MEASURED)) is None


def test_a_log_that_tells_only_what_is_left_teaches_the_rest() -> None:
    """What is neither weights nor cache, as one: 1 GiB less than computed for all three terms."""
    budget = predict(MEASURED).budget
    rest = sum(term.bytes for term in (budget.activation, budget.non_torch, budget.cuda_graphs))
    left = budget.requested.bytes - 10 * GIB - (rest - GIB)
    rank = RankReadings(weights=TermReading(10 * GIB), available_kv=TermReading(left))
    found = sample_of(replace(MEASURED, ranks=(rank,)), predict(MEASURED))
    assert found is not None
    lumped = {Term.ACTIVATION, Term.NON_TORCH, Term.CUDA_GRAPHS}
    assert found.residuals[Term.WEIGHTS] == 10 * GIB - budget.weights.bytes
    assert sum(found.residuals[term] for term in lumped) == -GIB
    assert found.lumped == lumped
    # 0.19.0 sets nothing aside for graphs, which is no matter of doubt; of the others each bears its part.
    assert found.residuals[Term.CUDA_GRAPHS] == 0
    widths = [budget.activation.high - budget.activation.low, budget.non_torch.high - budget.non_torch.low]
    assert found.residuals[Term.ACTIVATION] == pytest.approx(-GIB * widths[0] / sum(widths), abs=1)
    # Away from this GPU their sum says nothing of one of them.
    assert cell([found], Level.GPU, Term.ACTIVATION) is not None
    assert cell([found], Level.RELEASE, Term.ACTIVATION) is None


def test_a_log_that_tells_the_graphs_too_teaches_the_rest() -> None:
    """Graphs 0.5 GiB above what is computed, the two other terms together 0.25 GiB above."""
    budget = predict(MEASURED).budget
    graphs = budget.cuda_graphs.bytes + GIB // 2
    taken = budget.activation.bytes + budget.non_torch.bytes + GIB // 4 + graphs
    left = budget.requested.bytes - budget.weights.bytes - taken
    rank = RankReadings(
        weights=TermReading(budget.weights.bytes),
        available_kv=TermReading(left),
        graphs_estimated=TermReading(graphs),
    )
    found = sample_of(replace(MEASURED, ranks=(rank,)), predict(MEASURED))
    assert found is not None
    assert (found.residuals[Term.WEIGHTS], found.residuals[Term.CUDA_GRAPHS]) == (0, GIB // 2)
    assert found.residuals[Term.ACTIVATION] + found.residuals[Term.NON_TORCH] == GIB // 4
    assert found.lumped == {Term.ACTIVATION, Term.NON_TORCH}


@pytest.mark.parametrize(
    "measurement",
    [replace(MEASURED, release="0.1.0"), replace(MEASURED, model=replace(MEASURED.model, config={"x": 1}))],
)
def test_a_start_that_cannot_be_planned_is_told(measurement: object) -> None:
    with pytest.raises(NotPredicted):
        predict(measurement)  # type: ignore[arg-type]


RESIDUALS = st.integers(-4 * GIB, 4 * GIB)


@given(residual=RESIDUALS, count=st.integers(1, 12))
def test_a_learned_term_lies_between_what_is_computed_and_what_was_measured(
    residual: int, count: int
) -> None:
    samples = [sample(residual / MIB, node=str(number)) for number in range(count)]
    budget = predict(MEASURED).budget
    calibration, _ = learn(samples, TODAY)
    other = replace(CIRCUMSTANCES, kv_cache_dtype="fp8")
    term = calibration.applied(budget, other).non_torch
    computed = budget.non_torch.bytes
    measured = max(0, computed + residual)
    assert min(computed, measured) - MIB <= term.bytes <= max(computed, measured) + MIB
    assert term.low <= term.bytes <= term.high


@given(values=st.lists(RESIDUALS, min_size=1, max_size=8), order=st.randoms())
def test_the_order_of_measurements_does_not_matter(values: list[int], order: object) -> None:
    samples = [sample(value / MIB, node=str(number)) for number, value in enumerate(values)]
    shuffled = list(samples)
    order.shuffle(shuffled)  # type: ignore[attr-defined]
    assert learn(samples, TODAY)[1] == learn(shuffled, TODAY)[1]


def test_nothing_learned_changes_nothing() -> None:
    calibration, _ = learn([], TODAY)
    assert not calibration
    budget = predict(MEASURED).budget
    other = replace(CIRCUMSTANCES, gpu_name="NVIDIA L4")
    assert learn([sample(100)], TODAY)[0].applied(budget, other) is budget
