"""Measures what it costs to read logs that were made to be slow."""

from time import process_time
from typing import Final

from rich.markup import escape
from rich.table import Table

from service.startup_log.log import read_log
from tests.startup_log.hostile import SENTENCES, UNITS, hostile_log, numbered_log

SIZE: Final = 2 << 20
MOST: Final = 1.5
"""Seconds of processor time that a log of this size may take."""
SHOWN: Final = 8


def hostile_table() -> Table:
    """Return the slowest of all shapes, in seconds of processor time."""
    pieces = (*UNITS, *(f"{each}\n" for each in SENTENCES))
    lines = (unit for unit in UNITS if unit.endswith("\n"))
    costs = sorted(
        [
            *((_cost(hostile_log(unit, SIZE)), unit) for unit in pieces),
            *((_cost(numbered_log(unit, SIZE)), f"{unit} numbered") for unit in lines),
        ],
        reverse=True,
    )
    over = sum(cost > MOST for cost, _ in costs)
    title = f"reading 2 MiB of one piece: {len(costs)} pieces, {over} over {MOST} s of processor time"
    table = Table(title=title)
    table.add_column("piece", no_wrap=True)
    table.add_column("seconds", justify="right")
    for cost, unit in costs[:SHOWN]:
        table.add_row(escape(repr(unit)[:90]), f"{cost:.2f}")
    return table


def _cost(text: str) -> float:
    started = process_time()
    read_log(text)
    return process_time() - started
