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
UNKNOWN_FLAGS: Final = 0
"""At most: flags of published commands that nobody has sorted."""


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
    for name, found, most in checks:
        if found > most:
            yield f"{found} {name}, at most {most}"
