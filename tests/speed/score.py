"""How far predictions are from measured rows, and whether they order layouts right."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median

from tests.speed.prediction import Prediction

LARGE_DIFFERENCE = 0.2


def quantile(values: Iterable[float], share: float) -> float:
    """Return the value below which so large a share lies."""
    ordered = sorted(values)
    return ordered[int(share * (len(ordered) - 1))]


@dataclass(frozen=True, slots=True)
class Figures:
    """The errors of some rows."""

    rows: int
    models: int
    median: float
    p90: float
    median_of_models: float
    """Each model counted once."""

    @classmethod
    def of(cls, predictions: Sequence[Prediction], error: Callable[[Prediction], float]) -> "Figures":
        """Return the figures of some predictions by one measure of error."""
        by_model: defaultdict[str, list[float]] = defaultdict(list)
        for each in predictions:
            by_model[each.row.model].append(error(each))
        errors = [error(each) for each in predictions]
        return cls(
            len(predictions),
            len(by_model),
            median(errors),
            quantile(errors, 0.9),
            median(median(found) for found in by_model.values()),
        )


@dataclass(frozen=True, slots=True)
class Order:
    """Pairs of layouts of one model and load, and how many of them are ordered right by cost per token."""

    pairs: int
    right: int
    different: int
    """Pairs that differ by more than 20 %."""
    right_of_different: int

    @property
    def share(self) -> float:
        """Of the pairs that differ, those ordered right."""
        return self.right_of_different / self.different


def order_of(predictions: Iterable[Prediction], tpot_ms: Callable[[Prediction], float]) -> Order:
    """Return how layouts of one GPU type and other types are ordered by GPU time per output token."""
    same: defaultdict[tuple[object, ...], list[Prediction]] = defaultdict(list)
    for each in predictions:
        row = each.row
        same[row.model, row.prompt_tokens, row.output_tokens, row.concurrency].append(each)
    pairs = right = different = right_of_different = 0
    for group in same.values():
        for one, other in combinations(group, 2):
            if _layout(one) == _layout(other):
                continue
            measured = one.row.gpus * one.row.tpot_ms / (other.row.gpus * other.row.tpot_ms)
            predicted = one.row.gpus * tpot_ms(one) / (other.row.gpus * tpot_ms(other))
            is_right = (measured > 1) == (predicted > 1)
            differs = max(measured, 1 / measured) > 1 + LARGE_DIFFERENCE
            pairs, right = pairs + 1, right + is_right
            different, right_of_different = different + differs, right_of_different + (differs and is_right)
    return Order(pairs, right, different, right_of_different)


def _layout(prediction: Prediction) -> tuple[object, ...]:
    row = prediction.row
    return (
        row.gpu,
        row.checkpoint,
        row.tensor_parallel_size,
        row.pipeline_parallel_size,
        row.data_parallel_size,
        row.expert_parallel,
        row.instances,
    )


def coverage(predictions: Sequence[Prediction]) -> float:
    """Return the share of rows whose measured figure is in the interval."""
    return sum(each.holds for each in predictions) / len(predictions)
