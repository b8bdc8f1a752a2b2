"""The figures printed, and as JSON."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from service.engines.releases import RELEASES
from tests.advice.bounds import Board, broken
from tests.advice.judging import Judged, Judgement
from tests.advice.recommended import Comparison, Count
from tests.advice.rows import GOOD_TIERS
from tests.advice.sweep import by_release

WIDTH: Final = 200
"""Columns that the tables need."""


def report(board: Board, console: Console, *, listed: int) -> None:
    """Print a board; ``listed`` rows at most of what is not bounded."""
    console.print(_tiers(board))
    _say(console, f"{len(board.judged)} commands; vLLM {RELEASES[-1]} is the newest release")
    total, plannable = len(board.judged), len(board.plannable)
    _say(
        console,
        f"{board.classified} of {total} commands read with every flag in a list "
        f"({_percent(board.classified, total)})",
    )
    _say(
        console,
        f"{board.planned} of {plannable} with a config planned without editing "
        f"({_percent(board.planned, plannable)})",
    )
    _say(
        console,
        f"{board.doubted} of {board.planned} have a flag that is not modelled and may change the start "
        f"({_percent(board.doubted, board.planned)})",
    )
    left_out = sum(each.draft_left_out and each.judgement is Judgement.AGREE for each in board.judged)
    _say(console, f"{left_out} that agree were planned without their draft, whose config is not at hand")
    for judgement in (Judgement.FALSE_REFUSAL, Judgement.FALSE_START):
        _rows(console, judgement, board.of(judgement))
    for judgement in (
        Judgement.FORESEEN,
        Judgement.RECIPE_WRONG,
        Judgement.UNCERTAIN,
        Judgement.NOT_MODELLED,
    ):
        _causes(console, judgement, board.of(judgement))
    _flags(console, board.judged)
    for comparison in board.comparisons:
        _comparison(console, comparison, listed)
    swept = board.sweep
    _say(
        console,
        f"16-bit caches that are not the model's type: {len(swept.mistaken)} of {swept.recommendations} "
        f"recommendations ({swept.models} models, {swept.gpus} GPU types, {len(swept.releases)} releases)",
    )
    for mistake in swept.mistaken[:listed]:
        _say(
            console,
            f"  {mistake.dtype} for {mistake.model} ({mistake.model_dtype}), {mistake.gpu}, "
            f"{mistake.release}",
        )
    for entry in board.unused:
        _say(console, f"excuses nothing: {entry}")
    for words in broken(board):
        _say(console, f"BROKEN: {words}")


def figures(board: Board) -> dict[str, Any]:
    """Return the figures as JSON holds them, so that runs can be compared."""
    return {
        "tiers": {
            tier: {name.value: count for name, count in counts.items()}
            for tier, counts in _counts(board.judged).items()
        },
        "false_refusals": {each.row["id"]: each.cause for each in board.of(Judgement.FALSE_REFUSAL)},
        "false_starts": {each.row["id"]: each.cause for each in board.of(Judgement.FALSE_START)},
        "uncertain": {each.row["id"]: each.cause for each in board.of(Judgement.UNCERTAIN)},
        "not_modelled": {each.row["id"]: each.cause for each in board.of(Judgement.NOT_MODELLED)},
        "commands": {
            "read": board.classified,
            "with a config": len(board.plannable),
            "planned without editing": board.planned,
        },
        "recommendations": {
            each.name: {
                **each.figures(),
                "other dtypes": dict(each.dtypes()),
                "unanswered": dict(each.unanswered),
                "steps": dict(each.steps()),
            }
            for each in board.comparisons
        },
        "sweep": {
            "recommendations": board.sweep.recommendations,
            "mistaken": len(board.sweep.mistaken),
            "by_release": by_release(board.sweep.mistaken),
        },
        "broken": list(broken(board)),
    }


def _counts(judged: Iterable[Judged]) -> dict[str, Counter[Judgement]]:
    counts: dict[str, Counter[Judgement]] = defaultdict(Counter)
    for each in judged:
        counts[each.row["tier"]][each.judgement] += 1
    return counts


def _tiers(board: Board) -> Table:
    grid = Table(title="published commands", title_justify="left")
    grid.add_column("tier")
    for heading in ("rows", *Judgement):
        grid.add_column(heading, justify="right")
    counts = _counts(board.judged)
    for tier in (*GOOD_TIERS, *sorted(counts.keys() - set(GOOD_TIERS))):
        own = counts.get(tier, Counter[Judgement]())
        grid.add_row(tier, str(own.total()), *(str(own[each]) for each in Judgement))
    return grid


def _rows(console: Console, judgement: Judgement, found: list[Judged]) -> None:
    _say(console, f"\n{judgement}: {len(found)}")
    for cause, group in _by(found, lambda each: each.cause):
        _say(console, f"{len(group)} x {cause}")
        for each in group:
            row = each.row
            _say(
                console,
                f"  {row['id']} [{row['tier']}] {row['model']} on {row['gpus']} x {row['gpu']}, "
                f"{row['version']}, tp{row['tp']} pp{row['pp']} dp{row['dp']} ({each.config}): {each.words}",
            )


def _causes(console: Console, judgement: Judgement, found: list[Judged]) -> None:
    _say(console, f"\n{judgement}: {len(found)}")
    for cause, group in _by(found, lambda each: each.cause):
        _say(console, f"{len(group)} x {cause}: {' '.join(each.row['id'] for each in group)}")


def _by(found: Iterable[Judged], key: Callable[[Judged], str]) -> list[tuple[str, list[Judged]]]:
    groups: dict[str, list[Judged]] = defaultdict(list)
    for each in found:
        groups[key(each)].append(each)
    return sorted(groups.items(), key=lambda item: -len(item[1]))


def _flags(console: Console, judged: Iterable[Judged]) -> None:
    kinds: dict[str, Counter[str]] = defaultdict(Counter)
    for each in judged:
        for kind, names in (
            ("ignored", each.command.ignored),
            ("not modelled", each.command.not_modelled),
            ("in no list", each.command.unknown),
        ):
            kinds[kind].update(names)
    for kind, counts in kinds.items():
        specified = ", ".join(f"{name} {count}" for name, count in counts.most_common())
        _say(console, f"\nflags {kind}: {specified}")


def _comparison(console: Console, comparison: Comparison, listed: int) -> None:
    specified = comparison.figures()
    _say(
        console, f"\n{comparison.name}: " + ", ".join(f"{name} {count}" for name, count in specified.items())
    )
    shares = ("same GPUs", "same cache dtype", "GPUs and cache dtype both", "unusual cache")
    _say(console, ", ".join(f"{name} {comparison.share(name):.1f} %" for name in shares))
    steps = comparison.steps()
    _say(
        console, "steps of the order: " + ", ".join(f"{step} {count}" for step, count in steps.most_common())
    )
    _say(
        console,
        f"unanswered: {dict(comparison.unanswered)}; "
        f"cache dtypes that no expert took: {dict(comparison.dtypes())}",
    )
    for each in comparison.worst(listed):
        experts = " | ".join(sorted({str(layout) for layout in each.theirs}))
        ours = each.ours if each.count is not Count.NONE else "nothing"
        _say(console, f"  {each.question}: ours {ours}; experts {experts}")


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "none"


def _say(console: Console, words: str) -> None:
    console.print(words, markup=False, highlight=False, soft_wrap=True)
