"""What the service takes from its start to its first answer, beside an empty Python, and what it holds."""

import subprocess
import sys
import time

from rich.table import Table

from tests.bench.hub import resident_mebibytes
from tests.bench.server import running_server

RUNS = 5


def service_table() -> Table:
    """Start the service `RUNS` times; the best run counts, and with it the resident memory."""
    table = Table(title=f"the service from its start to /readyz, best of {RUNS}")
    for column in ("", "seconds", "x empty Python", "resident MiB"):
        table.add_column(column, justify="right", no_wrap=True)
    empty = min(_empty() for _ in range(RUNS))
    runs = [_ready() for _ in range(RUNS)]
    seconds, resident = min(seconds for seconds, _ in runs), min(resident for _, resident in runs)
    table.add_row("empty Python", f"{empty:.3f}", "1.0", "")
    table.add_row("ready", f"{seconds:.3f}", f"{seconds / empty:.1f}", f"{resident:.0f}")
    return table


def _empty() -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    return time.perf_counter() - started


def _ready() -> tuple[float, float]:
    """Return the seconds until the service can plan, and the memory in MiB that it then holds."""
    started = time.perf_counter()
    with running_server() as port:
        return time.perf_counter() - started, resident_mebibytes(port)
