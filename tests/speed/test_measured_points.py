"""Measurements of a layout move its speed: by hand, and against measured series."""

from collections import defaultdict
from dataclasses import replace
from statistics import median

import pytest

from service.advisor.ranking.speed_of_start import speed_of
from service.advisor.request.plan_request import MeasuredTpot
from service.speed.measured_points import LayoutPoint, ratio_at
from tests.speed.prediction import Prediction, predict
from tests.speed.rows import read_rows
from tests.speed.score import quantile


def test_a_ratio_between_two_points_by_hand() -> None:
    points = (LayoutPoint(64, 2.0), LayoutPoint(4, 0.5))
    # 16 lies half-way from 4 to 64 in logarithms, and so does 1 from 0.5 to 2.
    assert ratio_at(points, 16) == pytest.approx(1.0)
    assert (ratio_at(points, 1), ratio_at(points, 4)) == (0.5, 0.5)
    assert (ratio_at(points, 64), ratio_at(points, 500)) == (2.0, 2.0)
    assert ratio_at(points[:1], 7) == 2.0


def _series() -> list[list[Prediction]]:
    found: defaultdict[tuple[object, ...], dict[int, Prediction]] = defaultdict(dict)
    for row in read_rows():
        layout = (row.tensor_parallel_size, row.data_parallel_size, row.expert_parallel, row.instances)
        key = (row.checkpoint, row.gpu, layout, row.prompt_tokens, row.output_tokens, row.version)
        prediction = predict(row)
        if prediction is not None and row.instances == 1:
            found[key].setdefault(row.concurrency, prediction)
    return [[each for _, each in sorted(series.items())] for series in found.values() if len(series) >= 4]


@pytest.mark.slow
def test_two_measurements_of_a_layout_leave_little_error() -> None:
    errors, inside = [], []
    for series in _series():
        ends = tuple(MeasuredTpot(each.row.concurrency, each.row.tpot_ms) for each in (series[0], series[-1]))
        for each in series[1:-1]:
            workload = replace(each.workload, measured=ends)
            speed = speed_of(each.candidate, each.gpu, workload)
            assert speed is not None
            assert speed.basis == "measured"
            errors.append(abs(speed.tpot_ms.middle / each.row.tpot_ms - 1))
            inside.append(speed.tpot_ms.low <= each.row.tpot_ms <= speed.tpot_ms.high)
    assert len(errors) > 300
    assert median(errors) <= 0.06, (median(errors), quantile(errors, 0.9))
    assert quantile(errors, 0.9) <= 0.31
    assert 0.75 <= sum(inside) / len(inside) <= 0.95
