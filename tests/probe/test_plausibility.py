"""Numbers that cannot be teach nothing; those of real starts can all be."""

from dataclasses import replace

import pytest

from service.probe.learning import sample_of
from service.probe.measurements import RankReadings, Reading
from service.probe.plausibility import implausible
from service.probe.prediction import predict
from service.units import GIB
from tests.probe.campaign import campaign

_, MEASURED = campaign()[0]
(RANK,) = MEASURED.ranks


@pytest.mark.parametrize("measured", [each for _, each in campaign()], ids=lambda each: each.model.id)
def test_every_real_start_can_be(measured: object) -> None:
    assert implausible(measured) is None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("rank", "words"),
    [
        (replace(RANK, weights=Reading(0)), "0.00 GiB of weights"),
        (replace(RANK, weights=Reading(-GIB)), "-1.00 GiB of weights"),
        # More than the whole card.
        (replace(RANK, weights=Reading(200 * GIB)), "that it was granted"),
        (replace(RANK, available_kv=Reading(0)), "for the cache"),
        (replace(RANK, available_kv=Reading(-3 * GIB)), "for the cache"),
        (replace(RANK, activation=Reading(-2 * GIB)), "less than nothing"),
        (replace(RANK, non_torch=Reading(1 << 60)), "that it was granted"),
        (replace(RANK, graphs_estimated=Reading(GIB)), "that it was granted"),
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
