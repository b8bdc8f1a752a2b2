"""Fit the constants on the models of one half, to score them on the models of the other.

The start is far from what the service uses: 75 % of the bandwidth, 24 % of the tensor peak, 12.5
microseconds a layer, 58 more with tensor parallelism and 43 with experts.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from math import log, sqrt

from packaging.version import Version

from service.speed.speed_constants import SpeedConstants, speed_constants
from tests.speed.prediction import Prediction

START = {
    "memory_share": 0.75,
    "compute_share": 0.24,
    "prompt_share": 0.24,
    "layer_us": 12.5,
    "collective_us": 58.0,
    "expert_layer_us": 43.0,
    "sequence_us": 5.0,
    "routed_share": 0.9,
}
STEPS = (0.7, 0.85, 0.93, 1.07, 1.18, 1.4)
ROUNDS = 4
EQUAL_WEIGHT = 10
"""Rows that are added to each model's, so that models with one row do not decide."""


def halves(predictions: Sequence[Prediction]) -> tuple[list[Prediction], list[Prediction]]:
    """Return the rows of every second model, the models with most rows first, and the others."""
    rows = Counter(each.row.model for each in predictions)
    models = [model for model, _ in sorted(rows.items(), key=lambda item: (-item[1], item[0]))]
    first = set(models[::2])
    return (
        [each for each in predictions if each.row.model in first],
        [each for each in predictions if each.row.model not in first],
    )


def fit(predictions: Sequence[Prediction]) -> dict[str, float]:
    """Return the constants with the least error, found one after the other from a published start."""
    rows = Counter(each.row.model for each in predictions)
    values = dict(START)
    best = _loss(predictions, rows, values)
    for _ in range(ROUNDS):
        for name in START:
            for step in STEPS:
                changed = {**values, name: values[name] * step}
                if not name.endswith("_share") or changed[name] <= 1:
                    loss = _loss(predictions, rows, changed)
                    if loss < best:
                        best, values = loss, changed
    return values


def constants_with(values: dict[str, float], release: Version) -> SpeedConstants:
    """Return the constants of a release with some of them replaced."""
    return replace(speed_constants(release), **values)  # type: ignore[arg-type] # all of them are floats


def error_with(prediction: Prediction, values: dict[str, float]) -> float:
    """Return the relative error of one row with other constants."""
    return abs(_tpot(prediction, values) / prediction.row.tpot_ms - 1)


def _tpot(prediction: Prediction, values: dict[str, float]) -> float:
    release = prediction.candidate.rules.release
    speed = prediction.with_constants(constants_with(values, release))
    assert speed is not None
    return speed.tpot_ms.middle


def _loss(predictions: Sequence[Prediction], rows: Counter[str], values: dict[str, float]) -> float:
    """Return the errors in logarithms, capped and summed, with the models nearer to equal weight."""
    return sum(
        min(1.0, abs(log(_tpot(each, values) / each.row.tpot_ms))) / sqrt(rows[each.row.model] + EQUAL_WEIGHT)
        for each in predictions
    )
