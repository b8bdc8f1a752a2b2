"""Asks questions over and over, on connections that stay open."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPConnection
from itertools import count
from statistics import quantiles
from typing import Any

WARM_UP = 3
JSON = {"Content-Type": "application/json"}
CPU_SECONDS = "process_cpu_seconds_total "
Body = Mapping[str, Any]
NUMBERS = count()
"""One number for each question of a run, so that no varied question is asked twice."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked: a GET without a body, a POST with one, or with another one each time."""

    name: str
    path: str
    body: Body | Callable[[int], Body] | None


@dataclass(frozen=True, slots=True)
class Figures:
    """What came out."""

    p50_ms: float
    p99_ms: float
    requests_per_second: float
    processor_ms: float
    """Processor time of the service for one request, however busy the machine is."""
    answer_bytes: int


class AnswerRefused(RuntimeError):
    """The service answered with a fault, so there is nothing to measure."""


def measure(port: int, question: Question, connections: int, seconds: float) -> Figures:
    """Ask for a time on several connections at once.

    Raises:
        AnswerRefused: an answer was not 200.
    """
    numbers = NUMBERS
    with closing(HTTPConnection("127.0.0.1", port)) as connection:
        size = max(_ask(connection, question, next(numbers)) for _ in range(WARM_UP))
    started, processor = time.perf_counter(), processor_seconds(port)
    with ThreadPoolExecutor(connections) as pool:
        runs = [
            pool.submit(_ask_until, port, question, numbers, started + seconds) for _ in range(connections)
        ]
        taken = [duration for run in runs for duration in run.result()]
    elapsed, processor = time.perf_counter() - started, processor_seconds(port) - processor
    cuts = quantiles(taken, n=100) if len(taken) > 1 else [taken[0]] * 99
    return Figures(cuts[49] * 1e3, cuts[98] * 1e3, len(taken) / elapsed, processor / len(taken) * 1e3, size)


def ask_all(port: int, questions: Sequence[Question], number: int, connections: int) -> None:
    """Ask questions in turn, so many in all, on several connections at once.

    Raises:
        AnswerRefused: an answer was not 200.
    """

    def ask(numbers: range) -> None:
        with closing(HTTPConnection("127.0.0.1", port)) as connection:
            for each in numbers:
                _ask(connection, questions[each % len(questions)], next(NUMBERS))

    with ThreadPoolExecutor(connections) as pool:
        list(pool.map(ask, (range(start, number, connections) for start in range(connections))))


def processor_seconds(port: int) -> float:
    """Return the processor time that the service says it took."""
    with closing(HTTPConnection("127.0.0.1", port)) as connection:
        connection.request("GET", "/metrics")
        lines = connection.getresponse().read().decode().splitlines()
    return float(next(line for line in lines if line.startswith(CPU_SECONDS)).removeprefix(CPU_SECONDS))


def _ask_until(port: int, question: Question, numbers: "count[int]", end: float) -> list[float]:
    taken: list[float] = []
    with closing(HTTPConnection("127.0.0.1", port)) as connection:
        while not taken or time.perf_counter() < end:
            started = time.perf_counter()
            _ask(connection, question, next(numbers))
            taken.append(time.perf_counter() - started)
    return taken


def _ask(connection: HTTPConnection, question: Question, number: int) -> int:
    body = question.body(number) if callable(question.body) else question.body
    if body is None:
        connection.request("GET", question.path)
    else:
        connection.request("POST", question.path, json.dumps(body), JSON)
    reply = connection.getresponse()
    content = reply.read()
    if reply.status != 200:
        raise AnswerRefused(f"{question.name}: {reply.status} {content[:500]!r}")
    return len(content)
