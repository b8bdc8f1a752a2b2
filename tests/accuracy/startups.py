"""Print how far the advisor is from what real starts logged.

``python -m tests.accuracy.startups`` scores the rows that the repository keeps;
``python -m tests.accuracy.startups ROWS`` those of a file or folder of the same form.
"""

import argparse
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.accuracy import startups_summary as summary
from tests.accuracy.startups_rows import DATA, Row, read_rows
from tests.accuracy.startups_score import Omitted, Score, Term, score
from tests.accuracy.startups_summary import Errors
from tests.accuracy.startups_told import NotScored, Startup, read_startup

MEASURED = (Term.WEIGHTS, Term.AVAILABLE, Term.GIVEN, Term.GIVEN_CONCURRENCY, Term.TOKENS, Term.CONCURRENCY)
JUDGED = (Term.VERDICT, Term.GIVEN_REFUSAL)
GROUPS: tuple[tuple[str, Callable[[Startup], str]], ...] = (
    ("release", summary.regime),
    ("GPU class", summary.gpu_class),
    ("ranks", summary.ranks),
    ("family", summary.family),
    ("part", summary.part),
)


@dataclass(frozen=True, slots=True)
class Board:
    """All that was scored, and all that was not."""

    rows: int
    startups: tuple[Startup, ...]
    scores: tuple[Score, ...]
    omitted: tuple[Omitted, ...]

    def of(self, *terms: Term) -> list[Score]:
        """Return the scores of some terms."""
        return [each for each in self.scores if each.term in terms]

    def modelled(self) -> "Board":
        """Return the same for releases that the service plans."""
        kept = tuple(each for each in self.scores if each.startup.modelled)
        return Board(self.rows, self.startups, kept, self.omitted)


def score_rows(rows: Iterable[Row]) -> Board:
    """Score every row that can be planned; the others are named with the reason."""
    startups: list[Startup] = []
    omitted: list[Omitted] = []
    scores: list[Score] = []
    seen = 0
    for row in rows:
        seen += 1
        try:
            startup = read_startup(row)
        except NotScored as reason:
            omitted.append(Omitted(row["id"], None, str(reason), row["source"]))
            continue
        startups.append(startup)
        for each in score(startup):
            if isinstance(each, Score):
                scores.append(each)
            else:
                omitted.append(each)
    return Board(seen, tuple(startups), tuple(scores), tuple(omitted))


def _grid(title: str, *headings: str) -> Table:
    grid = Table(title=title, title_justify="left")
    for position, heading in enumerate(headings):
        grid.add_column(heading, justify="right" if position else "left", no_wrap=position == 0)
    return grid


def _figures(errors: Errors | None) -> tuple[str, ...]:
    if errors is None:
        return ("-",) * 3
    return (f"{errors.median:.2f}", f"{errors.p90:.2f}", f"{errors.worst:.2f}")


def _line(name: str, scores: list[Score]) -> tuple[str, ...]:
    ours = Errors.of(each.percent for each in scores)
    naive = [each.naive_percent for each in scores if each.naive_percent is not None]
    return (
        name,
        str(len(scores)),
        *_figures(ours),
        f"{summary.share([each.hit for each in scores]):.0f}",
        str(len(naive)),
        *_figures(Errors.of(naive)),
    )


HEADINGS = ("n", "median %", "p90 %", "worst %", "inside %", "naive n", "median %", "p90 %", "worst %")


def _tables(board: Board) -> Iterable[Table]:
    for term in MEASURED:
        scores = board.of(term)
        grid = _grid(f"{term}: error, share inside the interval; the naive formula's error", "", *HEADINGS)
        grid.add_row(*_line("all", scores))
        for title, key in GROUPS:
            grid.add_section()
            for name, group in summary.by(scores, key).items():
                grid.add_row(*_line(f"{title} {name}", group))
        yield grid
    for term in JUDGED:
        yield _verdicts(board, term)


def _verdicts(board: Board, term: Term) -> Table:
    grid = _grid(term.value, "logged", "n", "agreed", "ids that disagree")
    for name, logged in (("started", 1.0), ("refused", 0.0)):
        scores = [each for each in board.of(term) if each.logged == logged]
        wrong = [each.startup.id for each in scores if not each.hit]
        grid.add_row(name, str(len(scores)), str(len(scores) - len(wrong)), " ".join(wrong))
    return grid


def acceptance(board: Board) -> Table:
    """Return the figures beside the bounds that are wanted."""
    grid = _grid("wanted and reached", "", "wanted", "reached", "n")
    weights = Errors.of(each.percent for each in board.of(Term.WEIGHTS))
    free = Errors.of(each.percent for each in board.of(Term.AVAILABLE))
    own = Errors.of(each.percent for each in board.of(Term.AVAILABLE) if not each.startup.fitted)
    small = Errors.of(summary.calibrated(board.scores))
    for name, wanted, errors in (
        ("weights, % of themselves", "median 0.5, p90 3", weights),
        ("available KV, % of the requested", "median 1.5, p90 5", free),
        ("  of rows held out", "median 1.5, p90 5", own),
        ("campaign, GiB, calibrated on one 8B model", "p90 0.3", small),
    ):
        reached = "-" if errors is None else f"median {errors.median:.2f}, p90 {errors.p90:.2f}"
        grid.add_row(name, wanted, reached, str(errors.rows if errors else 0))
    given = board.of(Term.GIVEN)
    inside = board.of(Term.AVAILABLE)
    failed = [each for each in board.of(Term.VERDICT) if each.logged == 0]
    started = [each for each in board.of(Term.VERDICT) if each.logged == 1]
    for name, wanted, hits in (
        ("tokens within rounding, memory given", ">= 95 %", [each.hit for each in given]),
        ("interval holds the logged available KV", "75 to 90 %", [each.hit for each in inside]),
        ("  of rows held out", "75 to 90 %", [each.hit for each in inside if not each.startup.fitted]),
        ("failures not called a start", ">= 95 %", [each.hit for each in failed]),
        ("starts called does_not_start", "<= 3 %", [not each.hit for each in started]),
    ):
        grid.add_row(name, wanted, f"{summary.share(hits):.1f} %", str(len(hits)))
    return grid


def _rows(console: Console, board: Board) -> None:
    parts = summary.next_split(board.startups)
    for each in board.scores:
        startup = each.startup
        version = str(startup.releases[0]) if startup.release_told else "?"
        console.print(
            f"{startup.id} {startup.known.model.id} {version} {summary.gpu_class(startup)} "
            f"{summary.ranks(startup)} [{summary.part(startup)}; next fit: {parts[startup.id]}] {each.term}: "
            f"logged {each.logged:.2f}, {each.said or f'{each.predicted:.2f}'} "
            f"({each.low:.2f} to {each.high:.2f}), {each.percent:+.2f} %{'' if each.hit else ' outside'}",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )


def _misses(console: Console, board: Board) -> None:
    for each in board.scores:
        if each.hit or each.term in {Term.TOKENS, Term.CONCURRENCY}:
            continue
        console.print(
            f"{each.startup.id} {each.term}: logged {each.logged:.2f}, "
            f"{each.said or f'{each.predicted:.2f}'} ({each.percent:+.2f} %): "
            f"{each.startup.cause or 'cause not known'}",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )


def _omissions(console: Console, board: Board) -> None:
    reasons: dict[str, list[str]] = defaultdict(list)
    for each in board.omitted:
        reasons[f"{each.term or 'row'}: {each.reason}"].append(each.id)
    for reason, ids in sorted(reasons.items()):
        console.print(f"{len(ids)} {reason}: {' '.join(ids)}", markup=False, highlight=False, soft_wrap=True)


def report(board: Board, console: Console, *, rows: bool) -> None:
    """Print a board."""
    known = board.modelled()
    console.print(f"{board.rows} rows, {len(board.startups)} can be planned")
    for name, each in (("modelled releases", known), ("all dated releases", board)):
        grid = acceptance(each)
        grid.title = f"{grid.title}: {name}"
        console.print(grid)
    for table in _tables(board):
        console.print(table)
    parts = summary.next_split(board.startups)
    console.print(
        f"next fit, seed {summary.SEED}: {sum(part == 'fit' for part in parts.values())} rows to fit on, "
        f"{sum(part != 'fit' for part in parts.values())} held out; no model or lab is in both"
    )
    if rows:
        _rows(console, board)
    console.print("outside of the interval, or the wrong verdict:")
    _misses(console, board)
    console.print("not scored:")
    _omissions(console, board)


def main() -> None:
    """Score and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", type=Path, nargs="?", default=DATA, help="file, or folder of startups.jsonl")
    parser.add_argument("--rows", dest="each", action="store_true", help="print every comparison")
    options = parser.parse_args()
    report(score_rows(read_rows(options.rows)), Console(width=160), rows=options.each)


if __name__ == "__main__":
    main()
