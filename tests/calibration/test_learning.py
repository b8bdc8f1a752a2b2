"""What measurements teach: hand-worked cells, and laws."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.calibration.learning import Learned, learn
from service.calibration.measurement import Origin, RankReadings, TermReading
from service.calibration.prediction import NotPredicted, predict
from service.calibration.samples import Branch, Sample, sample_of
from service.memory.budget_types import Basis, Estimate, Level
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
    earlier = [sample(100, TODAY - 8 + number, branch=old) for number in range(5)]
    found = specified([*earlier, sample(300, TODAY - 1, branch=new)])
    assert (found.residual.middle, found.residual.evidence.count, found.set_aside) == (300 * MIB, 1, 5)


def test_a_stack_that_one_node_tells_voids_no_other_nodes_measurements() -> None:
    old: Branch = ("570", "12.8", "2.9.0")
    made_up: Branch = ("999", "99.0", "99.0.0")
    honest = [sample(100, TODAY - 3, str(number), branch=old) for number in range(5)]
    found = specified([*honest, sample(300, TODAY, "forged", branch=made_up)])
    assert (found.residual.middle, found.residual.evidence.count, found.set_aside) == (100 * MIB, 5, 1)


def test_a_token_is_one_voice_whatever_it_calls_its_nodes() -> None:
    forged = [sample(900, node=str(number), reporter="f") for number in range(1000)]
    honest = [sample(100, node="a", reporter="a"), sample(110, node="b", reporter="b")]
    found = specified([*forged, *honest])
    assert found.residual.evidence.count + found.set_aside == 3
    assert found.residual.middle <= 110 * MIB


def test_a_day_that_is_yet_to_come_is_today() -> None:
    found = specified([sample(100, 10**6)])
    assert (found.residual.evidence.age_days, found.residual.evidence.newest) == (0, "2026-05-27")
    assert found.residual.weight == 1


HONEST = st.lists(st.integers(-400, 400), min_size=1, max_size=5)
FORGED = st.lists(st.tuples(st.integers(-80_000, 80_000), st.integers(0, 300)), min_size=1, max_size=30)


@given(honest=HONEST, ages=st.lists(st.integers(0, 80), min_size=5, max_size=5), forged=FORGED)
def test_no_token_moves_a_cell_beyond_the_honest_spread(
    honest: list[int], ages: list[int], forged: list[tuple[int, int]]
) -> None:
    """Whatever one token says, on however many days, after others have spoken: 100 MiB at this level."""
    told_honestly = [
        sample(mib, TODAY - 301 - ages[number], reporter=str(number)) for number, mib in enumerate(honest)
    ]
    by_one = [sample(mib, TODAY - age, f"n{age}", reporter="forger") for mib, age in forged]
    found = specified([*told_honestly, *by_one])
    spread = max(max(honest) - min(honest), 100)
    assert (min(honest) - spread) * MIB <= found.residual.middle <= (max(honest) + spread) * MIB


def test_of_two_tokens_the_first_stands() -> None:
    """At this level honest starts differ by 100 MiB: the later one is held to 200, and both weigh alike."""
    honest = sample(100, TODAY, "a", reporter="a", measured_at=1.0)
    late = sample(5000, TODAY, "b", reporter="b", measured_at=2.0)
    assert specified([honest, late]).residual.middle == 150 * MIB
    # It is revoked: what another one measured stands alone.
    assert specified([replace(honest, revoked=True), late]).residual.middle == 5000 * MIB
    assert specified([honest, replace(late, revoked=True)]).residual.middle == 100 * MIB
    assert specified([replace(honest, revoked=True)]).residual.middle == 100 * MIB


def test_one_token_alone_moves_a_term_no_further_than_its_reach() -> None:
    """1.5 GiB: the term's own interval is narrower. Two tokens move it as far as both of them measured."""
    budget = predict(MEASURED).budget

    def after(*samples: Sample) -> Estimate:
        calibration, _ = learn(samples, TODAY)
        return calibration.applied(budget, CIRCUMSTANCES).non_torch

    alone = after(sample(5 * 1024, reporter="a"))
    assert alone.bytes == budget.non_torch.bytes + 3 * GIB // 2
    assert alone.basis is Basis.CALIBRATED
    assert "only one token" in alone.source
    assert alone.high - alone.low >= GIB
    both = after(sample(5 * 1024, reporter="a"), sample(5 * 1024 + 10, reporter="b"))
    assert both.bytes == budget.non_torch.bytes + 5 * GIB + 5 * MIB
    assert both.basis is Basis.MEASURED
    against = after(sample(5 * 1024, reporter="a"), sample(-100, reporter="b", measured_at=1.0))
    assert against.bytes <= budget.non_torch.bytes + 3 * GIB // 2


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
    assert without.residual.weight <= found.residual.weight <= 1.5 * without.residual.weight * (1 + 1e-12)


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
