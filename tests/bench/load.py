"""Asks one question over and over, on connections that stay open."""

import json
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPConnection
from statistics import quantiles
from typing import Any

WARM_UP = 3
JSON = {"Content-Type": "application/json"}


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked: a GET without a body, a POST with one."""

    name: str
    path: str
    body: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Figures:
    """What came out."""

    p50_ms: float
    p99_ms: float
    requests_per_second: float
    answer_bytes: int


class AnswerRefused(RuntimeError):
    """The service answered with a fault, so there is nothing to measure."""


def measure(port: int, question: Question, connections: int, seconds: float) -> Figures:
    """Ask for a time on several connections at once.

    Raises:
        AnswerRefused: an answer was not 200.
    """
    with closing(HTTPConnection("127.0.0.1", port)) as connection:
        size = max(_ask(connection, question) for _ in range(WARM_UP))
    started = time.perf_counter()
    with ThreadPoolExecutor(connections) as pool:
        runs = [pool.submit(_ask_until, port, question, started + seconds) for _ in range(connections)]
        taken = [duration for run in runs for duration in run.result()]
    elapsed = time.perf_counter() - started
    cuts = quantiles(taken, n=100) if len(taken) > 1 else [taken[0]] * 99
    return Figures(cuts[49] * 1e3, cuts[98] * 1e3, len(taken) / elapsed, size)


def _ask_until(port: int, question: Question, end: float) -> list[float]:
    taken: list[float] = []
    with closing(HTTPConnection("127.0.0.1", port)) as connection:
        while not taken or time.perf_counter() < end:
            started = time.perf_counter()
            _ask(connection, question)
            taken.append(time.perf_counter() - started)
    return taken


def _ask(connection: HTTPConnection, question: Question) -> int:
    if question.body is None:
        connection.request("GET", question.path)
    else:
        connection.request("POST", question.path, json.dumps(question.body), JSON)
    reply = connection.getresponse()
    content = reply.read()
    if reply.status != 200:
        raise AnswerRefused(f"{question.name}: {reply.status} {content[:500]!r}")
    return len(content)
