"""Hold our answers against what people publish: does each published command start, and do we advise the same?

``python -m tests.advice`` reads the part that the repository keeps; ``python -m tests.advice FOLDER CONFIGS``
a folder with ``rows.jsonl``, ``choices.jsonl`` and ``workloads.jsonl``, with the configs of another folder
beside the bundled ones. The exit status is 1 when a bound is broken (``tests/advice/bounds.py``).
"""

import argparse
import json
import sys
from pathlib import Path

from rich.console import Console

from tests.advice import rows as published
from tests.advice.asked import Service
from tests.advice.bounds import Board, broken
from tests.advice.judging import judge
from tests.advice.models import gather
from tests.advice.recommended import compare, gpu_names
from tests.advice.report import WIDTH, figures, report
from tests.advice.sweep import sweep
from tests.advice.wrong import read_wrong, reasons, unused


def score(
    folder: Path = published.KEPT,
    configs: Path | None = None,
    *,
    full_sweep: bool = False,
    with_comparisons: bool = True,
) -> Board:
    """Return the board of a folder of published commands."""
    service = Service(gather(configs))
    entries = read_wrong()
    rows = (*published.read_rows(folder, "rows.jsonl"), *published.read_rows(folder, "failures.jsonl"))
    names = gpu_names(rows)
    judged = tuple(judge(row, service, reasons(entries)) for row in rows)
    comparisons = tuple(
        compare(name, questions, names, service)
        for name, file in (("without a workload", "choices.jsonl"), ("with a workload", "workloads.jsonl"))
        if with_comparisons and (questions := published.read_rows(folder, file))
    )
    excuses = tuple(unused(entries, judged, whole=folder == published.KEPT))
    return Board(judged, comparisons, sweep(service, full=full_sweep), excuses)


def main() -> int:
    """Score and print."""
    parser = argparse.ArgumentParser(prog="tests.advice", description=__doc__)
    parser.add_argument(
        "folder", type=Path, nargs="?", default=published.KEPT, help="of rows.jsonl and others"
    )
    parser.add_argument("configs", type=Path, nargs="?", help="folder with <org>/<model>/config.json")
    parser.add_argument("--list", type=int, default=30, help="worst recommendations to list")
    parser.add_argument(
        "--sweep", action="store_true", help="all GPU types and releases, which takes half an hour"
    )
    parser.add_argument("--json", type=Path, help="file for the figures")
    options = parser.parse_args()
    board = score(options.folder, options.configs, full_sweep=options.sweep)
    report(board, Console(width=WIDTH), listed=options.list)
    if options.json:
        options.json.write_text(json.dumps(figures(board), indent=1) + "\n", "utf-8")
    return 1 if any(broken(board)) else 0


if __name__ == "__main__":
    sys.exit(main())
