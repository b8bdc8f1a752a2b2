"""Print how far the advisor is from what real starts logged.

``python -m tests.accuracy.startups`` scores the rows that the repository keeps;
``python -m tests.accuracy.startups ROWS`` those of a file or folder of the same form.
"""

import argparse
from collections import defaultdict
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.accuracy import startups_summary as summary
from tests.accuracy.startups_rows import DATA, Row, read_rows
from tests.accuracy.startups_score import (
    Omitted,
    Score,
    Term,
    score,
)
from tests.accuracy.startups_split import NEVER_FITTED, SEED, Part, is_held_out, part
from tests.accuracy.startups_summary import Errors
from tests.accuracy.startups_told import NotScored, Startup, read_startup

WIDTH = 200
"""Columns that the tables need."""

MEASURED = (
    Term.WEIGHTS,
    Term.AVAILABLE,
    Term.GRAPHS,
    Term.GIVEN,
    Term.GIVEN_CONCURRENCY,
    Term.TOKENS,
    Term.CONCURRENCY,
)
JUDGED = (Term.VERDICT, Term.GIVEN_REFUSAL)
GROUPS: tuple[tuple[str, Callable[[Startup], str]], ...] = (
    ("release", summary.regime),
    ("GPU class", summary.gpu_class),
    ("ranks", summary.ranks),
    ("family", summary.family),
    ("quantization", summary.quantization),
    ("part", part),
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

    def only(self, kept: Callable[[Startup], bool]) -> "Board":
        """Return the same for some starts."""
        scores = tuple(each for each in self.scores if kept(each.startup))
        return Board(self.rows, self.startups, scores, self.omitted)


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
    """Return the figures beside the bounds that are wanted: of all rows, and of those held out."""
    grid = _grid("wanted and reached", "", "wanted", "all rows", "n", "held out", "n", "fit", "n")
    for name, wanted, figure in FIGURES:
        cells: list[str] = []
        for chosen in (board, board.only(is_held_out), board.only(lambda each: not is_held_out(each))):
            text, rows = figure(chosen)
            cells += (text, str(rows))
        grid.add_row(name, wanted, *cells)
    return grid


Figure = Callable[[Board], tuple[str, int]]


def _spread(read: Callable[[Board], Iterable[float]]) -> Figure:
    def figure(board: Board) -> tuple[str, int]:
        errors = Errors.of(read(board))
        return ("-", 0) if errors is None else (f"{errors.median:.2f}, {errors.p90:.2f}", errors.rows)

    return figure


def _percents(term: Term, *, naive: bool = False) -> Figure:
    if naive:
        return _spread(lambda board: [e.naive_percent for e in board.of(term) if e.naive_percent is not None])
    return _spread(lambda board: [each.percent for each in board.of(term)])


def _share(term: Term, hit: Callable[[Score], bool], logged: float | None = None) -> Figure:
    def figure(board: Board) -> tuple[str, int]:
        hits = [hit(each) for each in board.of(term) if logged is None or each.logged == logged]
        return (f"{summary.share(hits):.1f} %" if hits else "-"), len(hits)

    return figure


FIGURES: tuple[tuple[str, str, Figure], ...] = (
    ("weights, % of themselves: median, p90", "0.5, 3", _percents(Term.WEIGHTS)),
    ("  the naive formula", "", _percents(Term.WEIGHTS, naive=True)),
    ("available KV, % of the requested: median, p90", "1.5, 5", _percents(Term.AVAILABLE)),
    ("  the naive formula", "", _percents(Term.AVAILABLE, naive=True)),
    (
        "campaign, GiB, calibrated on one 8B model: median, p90",
        "p90 0.3",
        _spread(lambda board: summary.calibrated(board.scores)),
    ),
    ("tokens within rounding, memory given", ">= 95 %", _share(Term.GIVEN, lambda each: each.hit)),
    ("interval holds the logged weights", "75 to 90 %", _share(Term.WEIGHTS, lambda each: each.hit)),
    ("interval holds the logged CUDA graphs", "75 to 90 %", _share(Term.GRAPHS, lambda each: each.hit)),
    ("interval holds the logged available KV", "75 to 90 %", _share(Term.AVAILABLE, lambda each: each.hit)),
    ("failures not called a start", ">= 95 %", _share(Term.VERDICT, lambda each: each.hit, 0)),
    ("  memory given", ">= 95 %", _share(Term.GIVEN_REFUSAL, lambda each: each.hit, 0)),
    ("starts called does_not_start", "<= 3 %", _share(Term.VERDICT, lambda each: not each.hit, 1)),
    ("  memory given", "<= 3 %", _share(Term.GIVEN_REFUSAL, lambda each: not each.hit, 1)),
)


THIRD_PART: tuple[tuple[str, str, Figure], ...] = (
    ("weights, % of themselves: median, p90", "0.5, 3", _percents(Term.WEIGHTS)),
    ("available KV, % of the requested: median, p90", "1.0, 4", _percents(Term.AVAILABLE)),
    *(figure for figure in FIGURES if figure[0].startswith("interval")),
    ("starts called does_not_start", "0 %", _share(Term.VERDICT, lambda each: not each.hit, 1)),
    ("failures not called a start", ">= 95 %", _share(Term.VERDICT, lambda each: each.hit, 0)),
)


def third_part(board: Board) -> Table:
    """Return the figures of each part of the starts gathered last, with the rows that they are of."""
    groups = {
        "sealed": {Part.SEALED},
        "11-23": {Part.NEWEST},
        "evening": {Part.LATEST},
        "night": {Part.NIGHT},
        "midnight": {Part.MIDNIGHT},
        "11-24": {Part.DAWN},
        "11-28": {Part.SEVENTH},
        "afternoon": {Part.EIGHTH},
        "28th, evening": {Part.NINTH},
        "28th, night": {Part.TENTH},
        "29th": {Part.ELEVENTH},
        "29th, morning": {Part.TWELFTH},
        "29th, afternoon": {Part.THIRTEENTH},
        "the first twelve": NEVER_FITTED - {Part.THIRTEENTH},
        "all sealed": NEVER_FITTED,
        "learnt from": {Part.LEARNT},
    }
    grid = _grid("gathered last", "", *(f"{name}, wanted {wanted}" for name, wanted, _ in THIRD_PART))
    for name, parts in groups.items():
        board_of_part = board.only(partial(_is_of, parts))
        figures = (figure(board_of_part) for _, _, figure in THIRD_PART)
        grid.add_row(name, *(f"{text} ({rows})" for text, rows in figures))
    return grid


def _is_of(parts: AbstractSet[Part], startup: Startup) -> bool:
    return part(startup) in parts


def _rows(board: Board) -> Table:
    """Return every start but the sealed ones on one line, what was predicted before what was logged."""
    terms = (Term.WEIGHTS, Term.AVAILABLE, Term.TOKENS, Term.GIVEN, Term.CONCURRENCY, Term.VERDICT)
    grid = _grid("predicted / logged", "id", "model", "start", "part", *terms)
    scores: dict[str, dict[Term, Score]] = defaultdict(dict)
    for each in board.scores:
        scores[each.startup.id][each.term] = each
    for startup in board.startups:
        found = scores[startup.id]
        if found and part(startup) is not Part.SEALED:
            cells = (_cell(found.get(term)) for term in terms)
            grid.add_row(startup.id, startup.known.model.id, _start(startup), part(startup), *cells)
    return grid


def _start(startup: Startup) -> str:
    version = str(startup.releases[0]) if startup.release_told else "?"
    return f"{version} {summary.gpu_class(startup)} {summary.ranks(startup)} {summary.quantization(startup)}"


def _cell(score: Score | None) -> str:
    if score is None:
        return ""
    if score.term is Term.VERDICT:
        return f"{score.said} / {'started' if score.logged else 'refused'}"
    digits = 2 if score.term in {Term.WEIGHTS, Term.AVAILABLE, Term.CONCURRENCY} else 0
    return f"{score.predicted:.{digits}f} / {score.logged:.{digits}f}{'' if score.hit else ' !'}"


def _misses(console: Console, board: Board) -> None:
    for each in board.scores:
        if each.hit or each.term in {Term.TOKENS, Term.CONCURRENCY} or part(each.startup) is Part.SEALED:
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


def report(board: Board, console: Console) -> None:
    """Print a board."""
    console.print(f"{board.rows} rows, {len(board.startups)} can be planned")
    console.print(acceptance(board))
    console.print(third_part(board))
    for table in _tables(board):
        console.print(table)
    held_out = sum(map(is_held_out, board.startups))
    console.print(
        f"seed {SEED}: constants are fitted on {len(board.startups) - held_out} rows; {held_out} are held out"
    )
    console.print(_rows(board))
    console.print("outside of the interval, or the wrong verdict:")
    _misses(console, board)
    console.print("not scored:")
    _omissions(console, board)


def main() -> None:
    """Score and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", type=Path, nargs="?", default=DATA, help="file, or folder of startups.jsonl")
    options = parser.parse_args()
    report(score_rows(read_rows(options.rows)), Console(width=WIDTH))


if __name__ == "__main__":
    main()
