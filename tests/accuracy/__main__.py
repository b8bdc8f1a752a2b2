"""Print how many answers of real releases we agree with, and how far we are from what real starts logged.

``python -m tests.accuracy`` replays the rows that the repository keeps;
``python -m tests.accuracy ROWS CONFIGS`` a folder of ``cases-<release>.jsonl``, with the
configs that they name. ``--startups`` takes the logged starts of another folder. Measured speeds come last.
"""

import argparse
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.accuracy import startups, startups_rows, weights
from tests.accuracy.oracle import Verdict, judge, read_rows
from tests.speed.prediction import predict
from tests.speed.report import report as report_speed
from tests.speed.rows import read_rows as read_rows_of_speed

BUNDLED = Path(__file__).parent.parent / "data" / "oracle" / "cases.jsonl.gz"


def table(title: str, verdicts: list[Verdict], key: Callable[[Verdict], str]) -> Table:
    """Return rows, exact ones and their share by some key."""
    counts: dict[str, Counter[bool]] = defaultdict(Counter)
    for verdict in verdicts:
        counts[key(verdict)][verdict.difference is None] += 1
    grid = Table(title=title, title_justify="left")
    for heading in (title, "rows", "exact", "%"):
        grid.add_column(heading, justify="left" if heading == title else "right")
    for name, count in sorted(counts.items()):
        grid.add_row(name, str(count.total()), str(count[True]), f"{100 * count[True] / count.total():.2f}")
    return grid


def main() -> None:
    """Compare and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "rows", type=Path, nargs="?", default=BUNDLED, help="folder with cases-<release>.jsonl"
    )
    parser.add_argument("configs", type=Path, nargs="?", help="folder with <org>/<model>/config.json")
    parser.add_argument("--list", type=int, default=30, help="disagreements to list")
    parser.add_argument("--startups", type=Path, default=startups_rows.DATA, help="folder of startups.jsonl")
    options = parser.parse_args()
    _answers(options.rows, options.configs, options.list)
    startups.report(
        startups.score_rows(startups_rows.read_rows(options.startups)), Console(width=startups.WIDTH)
    )
    measured = read_rows_of_speed()
    found = [each for row in measured if (each := predict(row)) is not None]
    report_speed(found, len(measured), Console(width=startups.WIDTH))


def _answers(source: Path, configs: Path | None, listed: int) -> None:
    rows = list(read_rows(source))
    verdicts = [verdict for row in rows if (verdict := judge(row, configs)) is not None]
    console = Console(width=160)
    console.print(table("release", verdicts, lambda v: str(v.row["engine_version"])))
    console.print(table("family", verdicts, lambda v: v.family))
    console.print(table("cache dtype", verdicts, lambda v: str(v.row["serve"]["kv_cache_dtype"])))
    exact = sum(verdict.difference is None for verdict in verdicts)
    console.print(f"{exact} of {len(verdicts)} rows agree exactly ({100 * exact / len(verdicts):.2f} %)")
    explained = sum(verdict.cause is not None for verdict in verdicts)
    console.print(
        f"{len(verdicts) - exact - explained} disagree, {explained} more cannot agree (cause named below)"
    )
    for verdict in [v for v in verdicts if v.difference is not None][:listed]:
        row = verdict.row
        console.print(
            f"{row['id']} {row['engine_version']} {row['config']} {row['serve']} {row['gpu']}: "
            + str(verdict.difference)
            + (f" ({verdict.cause})" if verdict.cause else ""),
            markup=False,
            highlight=False,
            soft_wrap=True,
        )
    weighed = [found for row in rows if (found := weights.weigh(row, configs)) is not None]
    if weighed:
        console.print(weights.table(weighed))
        console.print(
            f"further off: {weights.misses(weighed)}", markup=False, highlight=False, soft_wrap=True
        )


if __name__ == "__main__":
    main()
