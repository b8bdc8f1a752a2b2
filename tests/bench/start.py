"""What a command takes from its start to its end, as a multiple of an empty Python."""

import os
import subprocess
import sys
import tempfile

from rich.table import Table

RUNS = 5
PLAN = ("-m", "service", "plan", "Qwen/Qwen3-8B", "--gpu", "h100-sxm-80gb")
COMMANDS = (
    ("empty Python", ("-c", "pass")),
    ("dryserve --version", ("-m", "service", "--version")),
    ("dryserve --help", ("-m", "service", "--help")),
    ("dryserve plan --help", ("-m", "service", "plan", "--help")),
    ("dryserve plan MODEL --gpu X", PLAN),
    ("dryserve gpus list", ("-m", "service", "gpus", "list")),
)
BESIDE_DATABASE = ("dryserve plan, beside a database", PLAN)


def start_table() -> Table:
    """Run each command `RUNS` times after one run that writes the .pyc files; the best run counts."""
    table = Table(
        title=f"a command from start to end, best of {RUNS}; MODEL is bundled, the database is empty"
    )
    for column in ("command", "processor\ns", "x empty\nPython", "resident\nMiB"):
        table.add_column(column, justify="left" if column == "command" else "right", no_wrap=True)
    with tempfile.TemporaryDirectory() as home:
        rows = [(name, *_best(words, home)) for name, words in COMMANDS]
        _run(("-m", "service", "database", "upgrade"), home)
        name, words = BESIDE_DATABASE
        rows.append((name, *_best(words, home)))
    empty = rows[0][1]
    for name, seconds, resident in rows:
        table.add_row(name, f"{seconds:.3f}", f"{seconds / empty:.1f}", f"{resident / 1024:.0f}")
    return table


def _best(words: tuple[str, ...], home: str) -> tuple[float, int]:
    """Return the least processor time in seconds, user and system, and the resident memory in KiB."""
    _run(words, home)
    runs = [_run(words, home) for _ in range(RUNS)]
    return min(seconds for seconds, _ in runs), min(resident for _, resident in runs)


def _run(words: tuple[str, ...], home: str) -> tuple[float, int]:
    left_out = ("DRYSERVE_", "PYTHONDONTWRITEBYTECODE")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    environment = {**kept, "HOME": home, "HF_HUB_OFFLINE": "1"}
    with subprocess.Popen(  # noqa: S603 - this interpreter, with words of this module
        [sys.executable, *words], env=environment, stdout=subprocess.DEVNULL
    ) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{words} ended with {process.returncode}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss
