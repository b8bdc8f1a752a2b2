"""The service as it is run: a process of its own, spoken to over HTTP."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from http.client import HTTPConnection

import pytest

from tests.bench.load import JSON, Question, measure
from tests.bench.server import free_port, wait_until_ready


@pytest.fixture
def server() -> Iterator[tuple[int, subprocess.Popen[str]]]:
    port = free_port()
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_TOKEN": "hf_private", "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "service", "serve", "--port", str(port)]
    with subprocess.Popen(  # noqa: S603 - our own
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            wait_until_ready(port)
            yield port, process
        finally:
            process.kill()


def test_it_greets_answers_logs_and_stops(server: tuple[int, subprocess.Popen[str]]) -> None:
    port, process = server
    _ask_for_a_table(port)
    process.send_signal(signal.SIGTERM)
    greeting, log = process.communicate(timeout=20)
    _check_greeting(greeting, port)
    lines = [json.loads(line) for line in log.splitlines()]
    # uvicorn shuts down in order and then lets the signal end the process, as a supervisor expects.
    assert "Application shutdown complete." in [line["event"] for line in lines]
    assert process.returncode == -signal.SIGTERM
    (request,) = (line for line in lines if line["event"] == "request")
    assert (request["route"], request["status"], request["request_id"]) == ("/plan", 200, "mine")
    assert "hf_private" not in log


def _ask_for_a_table(port: int) -> None:
    connection = HTTPConnection("127.0.0.1", port)
    connection.request(
        "POST",
        "/plan",
        json.dumps({"model": "google/gemma-4-31B-it", "gpus": ["rtx-3090-24gb"]}),
        {**JSON, "Accept": "text/plain", "X-Request-ID": "mine"},
    )
    reply = connection.getresponse()
    assert "rtx-3090-24gb" in reply.read().decode()
    assert reply.getheader("Server") is None
    connection.close()


def _check_greeting(greeting: str, port: int) -> None:
    assert f"http://127.0.0.1:{port}" in greeting
    (line,) = re.findall(r"^curl .*$", greeting, re.MULTILINE)
    words = shlex.split(line)
    assert json.loads(words[words.index("--json") + 1])["model"] == "google/gemma-4-31B-it"
    assert words[-1] == f"http://127.0.0.1:{port}/plan"


def test_a_measurement_counts_what_was_asked(server: tuple[int, subprocess.Popen[str]]) -> None:
    figures = measure(server[0], Question("no-op", "/livez", None), connections=2, seconds=0.2)
    assert 0 < figures.p50_ms <= figures.p99_ms
    assert figures.requests_per_second > 0
