"""Predictions against published measurements: bounds that must not be lost."""

import pytest

from tests.speed.prediction import Prediction, predict
from tests.speed.rows import read_rows
from tests.speed.score import Figures, coverage, order_of

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def predictions() -> list[Prediction]:
    return [found for row in read_rows() if (found := predict(row)) is not None]


def test_most_rows_are_planned(predictions: list[Prediction]) -> None:
    assert len(predictions) >= 1_000


def test_time_per_token(predictions: list[Prediction]) -> None:
    ours = Figures.of(predictions, lambda p: p.error)
    naive = Figures.of(predictions, lambda p: p.naive_error)
    assert ours.median <= 0.20
    assert ours.p90 <= 0.55
    assert ours.median_of_models <= 0.28
    assert ours.median < naive.median / 2


def test_order_of_layouts_by_cost(predictions: list[Prediction]) -> None:
    ours = order_of(predictions, lambda p: p.tpot_ms)
    assert ours.different > 1_000
    assert ours.share >= 0.95
    assert ours.share > order_of(predictions, lambda p: p.naive_tpot_ms).share


def test_intervals_hold_what_they_say(predictions: list[Prediction]) -> None:
    assert 0.75 <= coverage(predictions) <= 0.90


def test_nothing_is_faster_than_the_memory(predictions: list[Prediction]) -> None:
    assert all(each.is_above_floor for each in predictions)
