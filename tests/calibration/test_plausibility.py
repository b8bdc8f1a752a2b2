"""Numbers that cannot be teach nothing; those of real starts can all be."""

from dataclasses import replace

import pytest

from service.calibration.measurement import RankReadings, TermReading
from service.calibration.plausibility import implausible
from service.calibration.prediction import predict
from service.calibration.samples import sample_of
from service.units import GIB
from tests.calibration.campaign import campaign

_, MEASURED = campaign()[0]
(RANK,) = MEASURED.ranks


@pytest.mark.parametrize("measured", [each for _, each in campaign()], ids=lambda each: each.model.id)
def test_every_real_start_can_be(measured: object) -> None:
    assert implausible(measured) is None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("rank", "words"),
    [
        (replace(RANK, weights=TermReading(0)), "0.00 GiB of weights"),
        (replace(RANK, weights=TermReading(-GIB)), "-1.00 GiB of weights"),
        # More than the whole card.
        (replace(RANK, weights=TermReading(200 * GIB)), "were requested"),
        (replace(RANK, available_kv=TermReading(0)), "for the cache"),
        (replace(RANK, available_kv=TermReading(-3 * GIB)), "for the cache"),
        (replace(RANK, activation=TermReading(-2 * GIB)), "negative"),
        (replace(RANK, non_torch=TermReading(1 << 60)), "were requested"),
        (replace(RANK, graphs_estimated=TermReading(GIB)), "were requested"),
    ],
)
def test_what_cannot_be_teaches_nothing(rank: RankReadings, words: str) -> None:
    absurd = replace(MEASURED, ranks=(rank,))
    reason = implausible(absurd)
    assert reason is not None
    assert words in reason
    assert sample_of(absurd, predict(MEASURED)) is None


@pytest.mark.parametrize("utilization", [0.0, -1.0, 1.5])
def test_a_share_of_the_device_is_one(utilization: float) -> None:
    assert implausible(replace(MEASURED, utilization=utilization)) is not None
