"""Measures the core in process and the service over HTTP on loopback: `python -m tests.bench`."""

import argparse

from rich.console import Console
from rich.table import Table

from tests.bench.candidate import candidate_table
from tests.bench.catalog import catalog_table
from tests.bench.load import Figures, Question, measure
from tests.bench.server import running_server

GEMMA = {"model": "google/gemma-4-31B-it", "engine": {"version": "0.32.0"}}
ONE_CANDIDATE = {"tensor_parallel_size": 2, "max_model_len": 131072, "kv_cache_dtype": "auto"}
EVERY_DTYPE = {"tensor_parallel_size": 2, "max_model_len": 131072}

LEVERS = {"gpus": ["h100-sxm-80gb"], "include": ["levers"]}

QUESTIONS = (
    Question("no-op: GET /livez", "/livez", None),
    Question("one GPU, one dtype", "/plan", {**GEMMA, "gpus": ["rtx-3090-24gb"], "serve": ONE_CANDIDATE}),
    Question("one GPU, every dtype", "/plan", {**GEMMA, "gpus": ["rtx-3090-24gb"], "serve": EVERY_DTYPE}),
    Question("whole catalog, every dtype", "/plan", {**GEMMA, "serve": EVERY_DTYPE}),
    Question("whole catalog, every dtype, TP 1 to 8", "/plan", GEMMA),
    Question("one GPU, every dtype, TP 1 to 8, levers", "/plan", {**GEMMA, **LEVERS}),
)


def main() -> None:
    """Measure every question, one after the other, against one server."""
    parser = argparse.ArgumentParser(prog="tests.bench", description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="for each question and load")
    parser.add_argument("--connections", type=int, default=4, help="of the loaded run")
    given = parser.parse_args()
    loads = (1, given.connections)
    Console(width=120).print(candidate_table())
    Console(width=120).print(catalog_table())
    with running_server() as port:
        rows = [
            (question, [measure(port, question, load, given.seconds) for load in loads])
            for question in QUESTIONS
        ]
    Console(width=120).print(_table(rows, loads))


def _table(rows: list[tuple[Question, list[Figures]]], loads: tuple[int, ...]) -> Table:
    table = Table(title="warm, one process, client on the same machine; latency in milliseconds")
    table.add_column("question", no_wrap=True)
    for load in loads:
        for column in ("p50", "p99", "req/s"):
            table.add_column(f"{load} conn.\n{column}", justify="right", no_wrap=True)
    table.add_column("bytes", justify="right", no_wrap=True)
    for question, figures in rows:
        cells = [cell for one in figures for cell in _cells(one)]
        table.add_row(question.name, *cells, f"{figures[0].answer_bytes:,}")
    return table


def _cells(figures: Figures) -> tuple[str, str, str]:
    return f"{figures.p50_ms:.2f}", f"{figures.p99_ms:.2f}", f"{figures.requests_per_second:,.1f}"


if __name__ == "__main__":
    main()
