"""What the service takes from its start to its first answer, beside an empty Python, and what it holds."""

import subprocess
import sys
import time
from collections.abc import Sequence

from rich.table import Table

from tests.bench.hub import resident_mebibytes
from tests.bench.load import Question, ask_all, processor_seconds
from tests.bench.server import running_server

RUNS = 5
MIXED = 10_000
"""Questions after which the memory is read again."""


def service_table(mixed: Sequence[Question]) -> Table:
    """Start the service `RUNS` times, of which the best run counts, and ask the last one mixed questions."""
    table = Table(title=f"the service from its start to /readyz, best of {RUNS}")
    for column in ("", "seconds", "processor\ns", "x empty\nPython", "resident\nMiB"):
        table.add_column(column, justify="right", no_wrap=True)
    empty = min(_empty() for _ in range(RUNS))
    seconds, processor, resident = map(min, zip(*(_ready() for _ in range(RUNS)), strict=True))
    table.add_row("empty Python", f"{empty:.3f}", "", "1.0", "")
    table.add_row("ready", f"{seconds:.3f}", f"{processor:.2f}", f"{seconds / empty:.1f}", f"{resident:.0f}")
    table.add_row(f"after {MIXED:,} mixed questions", "", "", "", f"{_after(mixed):.0f}")
    return table


def _empty() -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    return time.perf_counter() - started


def _ready() -> tuple[float, float, float]:
    """Return the seconds until the service can plan, those of the processor, and the memory in MiB."""
    started = time.perf_counter()
    with running_server() as port:
        return time.perf_counter() - started, processor_seconds(port), resident_mebibytes(port)


def _after(mixed: Sequence[Question]) -> float:
    """Return the memory in MiB after many questions."""
    with running_server() as port:
        ask_all(port, mixed, MIXED, 4)
        return resident_mebibytes(port)
