"""Print how far the speed of plans is from measured rows: ``python -m tests.speed [FILE] [--fit]``."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from tests.speed.fit import error_with, fit, halves
from tests.speed.prediction import Prediction, predict
from tests.speed.report import report
from tests.speed.rows import DATA, read_rows
from tests.speed.score import Figures


def main() -> None:
    """Score and print."""
    parser = argparse.ArgumentParser(prog="tests.speed", description=__doc__)
    parser.add_argument("rows", type=Path, nargs="?", default=DATA, help="file of measured rows")
    parser.add_argument("--fit", action="store_true", help="fit one half of the models, score the other")
    options = parser.parse_args()
    rows = read_rows(options.rows)
    predictions = [found for row in rows if (found := predict(row)) is not None]
    report(predictions, len(rows), Console(width=120))
    if options.fit:
        _held_out(predictions, Console(width=120))


def _held_out(predictions: Sequence[Prediction], console: Console) -> None:
    first, second = halves(predictions)
    errors: dict[str, float] = {}
    for fitted, scored in ((first, second), (second, first)):
        values = fit(fitted)
        console.print({name: round(value, 2) for name, value in values.items()})
        errors |= {each.row.id: error_with(each, values) for each in scored}
    figures = Figures.of(predictions, lambda p: errors[p.row.id])
    console.print(
        f"fitted on one half of the models, scored on the other: median {figures.median:.1%}, p90 "
        f"{figures.p90:.1%}, each model once {figures.median_of_models:.1%}"
    )


if __name__ == "__main__":
    main()
