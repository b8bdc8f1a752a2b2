"""Replaying the lab: once one small model is measured on one rank and on two, the others are known well."""

from dataclasses import replace
from statistics import quantiles

import pytest

from service.calibration.learning import learn
from service.calibration.measurement import Measurement, TermReading
from service.calibration.prediction import predict
from service.calibration.samples import sample_of
from service.memory.budget_types import Basis, Level, MemoryBudget
from service.memory.calibration import Calibration
from service.units import GIB
from tests.accuracy.startups_told import Startup
from tests.calibration.campaign import DAY, campaign

TAUGHT = ("m15", "m21")
"""Llama 3.1 8B at its plainest, on one rank and on two."""


def calibration_of(*measurements: Measurement) -> Calibration:
    samples = (sample_of(each, predict(each)) for each in measurements)
    return learn([sample for sample in samples if sample is not None], DAY + 1)[0]


def learned(measurement: Measurement, calibration: Calibration) -> MemoryBudget:
    prediction = predict(measurement)
    return calibration.applied(prediction.budget, prediction.circumstances)


def room(measurement: Measurement) -> int:
    specified = measurement.fullest.available_kv
    assert specified is not None
    return specified.bytes


@pytest.fixture(scope="module")
def taught() -> Calibration:
    return calibration_of(*(measurement for startup, measurement in campaign() if startup.id in TAUGHT))


def others() -> list[tuple[Startup, Measurement]]:
    return [(startup, each) for startup, each in campaign() if "Llama-3.1-8B" not in each.model.id]


def p90(errors: list[float]) -> float:
    return quantiles(map(abs, errors), n=10, method="inclusive")[-1]


def test_the_other_models_are_within_0_3_gib(taught: Calibration) -> None:
    errors, inside = [], 0
    for _, measurement in others():
        specified = learned(measurement, taught).available_kv
        errors.append((specified.bytes - room(measurement)) / GIB)
        # The logs have two decimals.
        inside += specified.low - GIB / 100 <= room(measurement) <= specified.high + GIB / 100
    assert len(errors) >= 30
    assert p90(errors) <= 0.3
    # Between the 10th and the 90th percentile.
    assert inside >= 0.8 * len(errors)


@pytest.mark.parametrize("more", [1.5, -0.2])
def test_a_node_unlike_any_known_one_is_learned_too(more: float) -> None:
    """As if the libraries took so many GiB more everywhere, which no constant knows."""
    changed = {startup.id: _with_more(measurement, more) for startup, measurement in campaign()}
    calibration = calibration_of(*(changed[each] for each in TAUGHT))
    before, after = [], []
    for startup, _ in others():
        measurement = changed[startup.id]
        before.append((predict(measurement).budget.available_kv.bytes - room(measurement)) / GIB)
        after.append((learned(measurement, calibration).available_kv.bytes - room(measurement)) / GIB)
    assert p90(after) <= 0.3
    assert p90(after) < p90(before)


def _with_more(measurement: Measurement, gib: float) -> Measurement:
    (rank,) = measurement.ranks
    assert rank.non_torch is not None
    changed = replace(
        rank,
        non_torch=TermReading(rank.non_torch.bytes + round(gib * GIB)),
        available_kv=TermReading(room(measurement) - round(gib * GIB)),
    )
    return replace(measurement, ranks=(changed,))


def test_the_terms_tell_what_they_were_learned_from(taught: Calibration) -> None:
    _, other = others()[0]
    budget = learned(other, taught)
    for term in (budget.activation, budget.non_torch, budget.available_kv):
        assert term.evidence is not None
        assert (term.evidence.level, term.evidence.count) == (Level.GPU, 1)
        assert (term.evidence.newest, term.evidence.age_days) == ("2026-02-16", 1)
    assert budget.weights.evidence is None
    assert budget.non_torch.basis is Basis.CALIBRATED


def test_the_very_start_is_told_as_it_was_measured(taught: Calibration) -> None:
    for startup, measurement in campaign():
        if startup.id in TAUGHT:
            budget, specified = learned(measurement, taught), measurement.fullest
            assert specified.weights is not None
            assert specified.available_kv is not None
            assert budget.weights.bytes == specified.weights.bytes
            assert budget.weights.basis is Basis.MEASURED
            # Five terms of two decimals each.
            assert abs(budget.available_kv.bytes - specified.available_kv.bytes) <= 0.025 * GIB
            assert budget.available_kv.high - budget.available_kv.low <= 0.3 * GIB


def test_a_measurement_holds_for_any_share_of_the_device(taught: Calibration) -> None:
    """KV(u') = KV(u) + (u' - u) x total, as the release computes it."""
    (measurement,) = (each for startup, each in campaign() if startup.id == TAUGHT[0])
    lower = replace(measurement, utilization=0.5, flags={**measurement.flags, "gpu_memory_utilization": 0.5})
    budget, whole = learned(lower, taught), learned(measurement, taught)
    assert budget.weights.basis is Basis.MEASURED
    shift = (measurement.utilization - 0.5) * measurement.device.total_bytes
    assert abs(whole.available_kv.bytes - budget.available_kv.bytes - shift) <= 1
