"""Prints how far the speed of plans is from measured rows."""

from collections.abc import Callable, Sequence

from rich.console import Console
from rich.table import Table

from tests.speed.prediction import Prediction
from tests.speed.score import Figures, coverage, order_of


def report(predictions: Sequence[Prediction], rows: int, console: Console) -> None:
    """Print the errors by model, by lab and by GPU type, beside one efficiency for all."""
    console.print(f"Speed: {len(predictions)} of {rows} measured rows are planned")
    for title, key in (
        ("model", lambda each: each.row.model),
        ("lab", lambda each: each.row.lab),
        ("GPU type", lambda each: each.row.gpu),
    ):
        console.print(_table(title, predictions, key))
    order, naive = (
        order_of(predictions, lambda p: p.tpot_ms),
        order_of(predictions, lambda p: p.naive_tpot_ms),
    )
    console.print(
        f"cheaper of two layouts: {order.right_of_different} of {order.different} pairs that differ by over "
        f"20 % ({order.share:.1%}; one efficiency: {naive.share:.1%}), {order.right} of {order.pairs} in all"
    )
    above = sum(not each.is_above_floor for each in predictions)
    console.print(f"intervals hold {coverage(predictions):.1%}; faster than the bandwidth allows: {above}")


def _table(title: str, predictions: Sequence[Prediction], key: Callable[[Prediction], str]) -> Table:
    grid = Table(title=title, title_justify="left")
    for heading in (title, "rows", "median", "p90", "one efficiency", "p90", "holds"):
        grid.add_column(heading, justify="left" if heading == title else "right")
    for name in sorted({key(each) for each in predictions}):
        _add(grid, name, [each for each in predictions if key(each) == name])
    _add(grid, "all", predictions)
    ours = Figures.of(predictions, lambda p: p.error)
    naive = Figures.of(predictions, lambda p: p.naive_error)
    grid.add_row("each model once", "", f"{ours.median_of_models:.1%}", "", f"{naive.median_of_models:.1%}")
    return grid


def _add(grid: Table, name: str, rows: Sequence[Prediction]) -> None:
    ours, naive = Figures.of(rows, lambda p: p.error), Figures.of(rows, lambda p: p.naive_error)
    shares = (ours.median, ours.p90, naive.median, naive.p90, coverage(rows))
    grid.add_row(name, str(len(rows)), *(f"{share:.1%}" for share in shares))
