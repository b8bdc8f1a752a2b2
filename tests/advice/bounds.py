"""What must hold of the figures, in one place."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tests.advice.judging import Judged, Judgement
from tests.advice.recommended import Comparison
from tests.advice.rows import GOOD_TIERS
from tests.advice.sweep import Sweep

FALSE_REFUSALS: Final = 0
"""At most, among the commands of the tiers that somebody ran or vouches for."""
FALSE_STARTS: Final = 0
"""At most, among the published failures."""
MISTAKEN_CACHES: Final = 0
"""At most, among all recommendations: 16-bit caches that are not the model's own type."""
BOTH: Final = {"without a workload": 80, "with a workload": 68}
"""Least percent of the questions with the number of GPUs and the cache dtype of some expert, by comparison.

With a workload many questions are points of a sweep: one request at a time on as many GPUs as there are.
"""
SAME_CACHE: Final = {"without a workload": 90, "with a workload": 95}
"""Least percent of the questions with the cache dtype of some expert, by comparison."""
UNUSUAL: Final = 2.0
"""Percent of the recommendations below which caches that nobody publishes stay."""
UNKNOWN_FLAGS: Final = 0
"""At most: flags of published commands that nobody has sorted."""
DOUBTED_PERCENT: Final = 10
"""At most, of the planned commands: uncertain for a flag that is not modelled."""
PLANNED_PERCENT: Final = 97
"""At least, of the commands whose model has a config at hand: planned without editing."""


@dataclass(frozen=True, slots=True)
class Board:
    """All figures of one run."""

    judged: tuple[Judged, ...]
    comparisons: tuple[Comparison, ...]
    sweep: Sweep
    unused: tuple[str, ...]
    """Entries of the list of wrong recipes that excuse nothing."""

    def of(self, *judgements: Judgement, good: bool = False) -> list[Judged]:
        """Return the commands so judged; of the good tiers alone, if wanted."""
        return [
            each
            for each in self.judged
            if each.judgement in judgements and (not good or each.row["tier"] in GOOD_TIERS)
        ]

    @property
    def classified(self) -> int:
        """Commands that are read to their end, every flag in one of the three lists."""
        return sum(not each.command.unknown and not each.command.faults for each in self.judged)

    @property
    def plannable(self) -> list[Judged]:
        """Commands whose model has a config at hand."""
        return [each for each in self.judged if each.judgement is not Judgement.NO_CONFIG]

    @property
    def planned(self) -> int:
        """Of those, the commands that are planned without editing."""
        return sum(each.planned for each in self.plannable)

    @property
    def doubted(self) -> int:
        """Of the planned commands, those that a flag makes uncertain because it is not modelled."""
        return sum(bool(each.doubts) for each in self.plannable)

    @property
    def unknown_flags(self) -> tuple[str, ...]:
        """Flags that stand in no list."""
        return tuple(sorted({name for each in self.judged for name in each.command.unknown}))


def broken(board: Board) -> Iterator[str]:
    """Yield what does not hold."""
    checks = (
        (
            "false refusals in the good tiers",
            len(board.of(Judgement.FALSE_REFUSAL, good=True)),
            FALSE_REFUSALS,
        ),
        ("false starts of published failures", len(board.of(Judgement.FALSE_START)), FALSE_STARTS),
        ("16-bit caches that are not the model's type", len(board.sweep.mistaken), MISTAKEN_CACHES),
        ("flags in no list", len(board.unknown_flags), UNKNOWN_FLAGS),
        ("entries of wrong recipes that excuse nothing", len(board.unused), 0),
    )
    if 100 * board.planned < PLANNED_PERCENT * len(board.plannable):
        yield f"{board.planned} of {len(board.plannable)} commands planned without editing"
    if 100 * board.doubted > DOUBTED_PERCENT * board.planned:
        yield f"{board.doubted} of {board.planned} planned commands uncertain for flags that are not modelled"
    for name, found, most in checks:
        if found > most:
            yield f"{found} {name}, at most {most}"
    for comparison in board.comparisons:
        yield from _unlike_experts(comparison)


def _unlike_experts(comparison: Comparison) -> Iterator[str]:
    """Yield in what too few recommendations are those of experts."""
    floors = (("GPUs and cache dtype both", BOTH), ("same cache dtype", SAME_CACHE))
    for name, least in floors:
        if (share := comparison.share(name)) < least[comparison.name]:
            yield f"{share:.1f} % {name} {comparison.name}, at least {least[comparison.name]} %"
    if (share := comparison.share("unusual cache")) >= UNUSUAL:
        yield f"{share:.1f} % unusual caches {comparison.name}, below {UNUSUAL:g} %"
