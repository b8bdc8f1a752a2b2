"""Measures the core in process and the service over HTTP on loopback: `python -m tests.bench`."""

import argparse
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.bench.candidate import candidate_table
from tests.bench.catalog import catalog_table
from tests.bench.hostile_logs import hostile_table
from tests.bench.load import Figures, Question, measure
from tests.bench.server import running_server
from tests.bench.service_start import service_table
from tests.bench.start import start_table

GEMMA = {"model": "google/gemma-4-31B-it", "engine": {"version": "0.32.0"}}
ONE_CANDIDATE = {"tensor_parallel_size": 2, "max_model_len": 131072, "kv_cache_dtype": "auto"}
EVERY_DTYPE = {"tensor_parallel_size": 2, "max_model_len": 131072}

POINT = {"model": "Qwen/Qwen3-8B", "engine": {"version": "0.32.0"}}
POINT_GPUS = ("h100-sxm-80gb", "a100-sxm-80gb", "l40s-48gb", "h200-sxm-141gb")
POINT_FLAGS = {"tensor_parallel_size": 1, "max_model_len": 16384, "kv_cache_dtype": "auto"}


def varied_point(number: int) -> dict[str, Any]:
    """Return a question for one candidate with another length, GPU type and cache dtype each time."""
    dtype = ("auto", "fp8")[number // len(POINT_GPUS) % 2]
    flags = {**POINT_FLAGS, "max_model_len": 4096 + number % 36000, "kv_cache_dtype": dtype}
    return {**POINT, "gpus": [POINT_GPUS[number % len(POINT_GPUS)]], "serve": flags}


def varied_refusal(number: int) -> dict[str, Any]:
    """Return a question for one candidate that does not start, so that fixes of it are planned too."""
    flags = {**ONE_CANDIDATE, "max_model_len": 65536 + number % 60000}
    return {**GEMMA, "gpus": ["rtx-3090-24gb"], "serve": flags}


def varied_search(number: int) -> dict[str, Any]:
    """Return a question for every dtype and parallel size on one GPU type, of another length each time."""
    gpu = POINT_GPUS[number % len(POINT_GPUS)]
    return {**POINT, "gpus": [gpu], "serve": {"max_model_len": 4096 + number % 36000}}


MIXED = (
    Question("point", "/plan", varied_point),
    Question("refusal", "/plan", varied_refusal),
    Question("search", "/plan", varied_search),
    Question("models", "/models", None),
)
LEVERS = {"gpus": ["h100-sxm-80gb"], "include": ["levers"]}

QUESTIONS = (
    Question("no-op: GET /livez", "/livez", None),
    Question(
        "one GPU, one dtype: identical", "/plan", {**POINT, "gpus": ["h100-sxm-80gb"], "serve": POINT_FLAGS}
    ),
    Question("one GPU, one dtype: varied", "/plan", varied_point),
    Question("one GPU, one dtype, refused: varied", "/plan", varied_refusal),
    Question(
        "one GPU, one dtype, refused: identical",
        "/plan",
        {**GEMMA, "gpus": ["rtx-3090-24gb"], "serve": ONE_CANDIDATE},
    ),
    Question("one GPU, every dtype, TP 1 to 8: varied", "/plan", varied_search),
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
    parser.add_argument("--http", action="store_true", help="only over HTTP")
    given = parser.parse_args()
    loads = (1, given.connections)
    if not given.http:
        Console(width=150).print(start_table())
        Console(width=150).print(service_table(MIXED))
        Console(width=150).print(candidate_table())
        Console(width=150).print(catalog_table())
        Console(width=150).print(hostile_table())
    with running_server() as port:
        rows = [
            (question, [measure(port, question, load, given.seconds) for load in loads])
            for question in QUESTIONS
        ]
    Console(width=170).print(_table(rows, loads))


def _table(rows: list[tuple[Question, list[Figures]]], loads: tuple[int, ...]) -> Table:
    table = Table(title="warm, one process, client on the same machine; times in milliseconds")
    table.add_column("question", no_wrap=True)
    for load in loads:
        for column in ("p50", "x no-op", "p99", "req/s", "CPU", "of no-op"):
            table.add_column(f"{load} conn.\n{column}", justify="right", no_wrap=True)
    table.add_column("bytes", justify="right", no_wrap=True)
    nothing = rows[0][1]
    for question, figures in rows:
        cells = [cell for one, no_op in zip(figures, nothing, strict=True) for cell in _cells(one, no_op)]
        table.add_row(question.name, *cells, f"{figures[0].answer_bytes:,}")
    return table


def _cells(one: Figures, no_op: Figures) -> tuple[str, ...]:
    """Return the cells of one load: the p50 as a multiple of the no-op route's, the throughput as a share."""
    multiple = f"{one.p50_ms / no_op.p50_ms:.1f}"
    times = (f"{one.p50_ms:.2f}", multiple, f"{one.p99_ms:.2f}", f"{one.requests_per_second:,.0f}")
    share = one.requests_per_second / no_op.requests_per_second
    return (*times, f"{one.processor_ms:.2f}", f"{share:.0%}")


if __name__ == "__main__":
    main()
