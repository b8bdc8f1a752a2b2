"""What a load must come to, and what it came to."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table


@dataclass(frozen=True, slots=True)
class Acceptance:
    """One figure of a load beside its limit."""

    what: str
    figure: str
    limit: str
    is_met: bool | None
    """``None``: this machine cannot show it, or there is no limit."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one load."""

    line: str
    """All figures, for people."""
    accepted: Sequence[Acceptance]


def at_most(what: str, value: float, limit: float, unit: str = "") -> Acceptance:
    """Return a figure that may not exceed its limit."""
    return Acceptance(what, f"{value:,.4g}{unit}", f"<= {limit:g}{unit}", value <= limit)


def at_least(what: str, value: float, limit: float, unit: str = "") -> Acceptance:
    """Return a figure that may not be below its limit."""
    return Acceptance(what, f"{value:,.4g}{unit}", f">= {limit:g}{unit}", value >= limit)


def acceptance_table(outcomes: Sequence[tuple[str, Outcome]]) -> Table:
    """Return one row for each figure that has a limit."""
    table = Table(title="load: what is asked for, and what was measured")
    for column in ("load", "what", "measured", "limit", ""):
        right = column in {"measured", "limit"}
        table.add_column(column, justify="right" if right else "left", no_wrap=True)
    words = {True: "pass", False: "FAIL", None: "not judged"}
    for name, outcome in outcomes:
        for each in outcome.accepted:
            table.add_row(name, each.what, each.figure, each.limit, words[each.is_met])
    return table
