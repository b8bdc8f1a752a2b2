"""The service as it is run: a process of its own, spoken to over HTTP."""

import json
import os
import re
import select
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from service.cli.listening import bound
from service.cli.main import cli
from service.settings import settings_table
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


def test_it_answers_logs_and_stops(server: tuple[int, subprocess.Popen[str]]) -> None:
    port, process = server
    _ask_for_a_table(port)
    process.send_signal(signal.SIGTERM)
    printed, log = process.communicate(timeout=20)
    assert printed == ""  # a container's two streams are one, and all of it is JSON
    lines = [json.loads(line) for line in log.splitlines()]
    (start,) = (line for line in lines if line["event"] == "serving")
    assert start["url"] == f"http://127.0.0.1:{port}"
    # uvicorn shuts down in order and then lets the signal end the process, as a supervisor expects.
    assert "Application shutdown complete." in [line["event"] for line in lines]
    assert process.returncode == -signal.SIGTERM
    (request,) = (line for line in lines if line["event"] == "request")
    assert (request["route"], request["status"], request["request_id"]) == ("/plan", 200, "mine")
    assert "hf_private" not in log


def test_connections_are_refused_until_the_service_can_answer() -> None:
    """So that a proxy gives a request to another replica, in place of waiting for this one to load."""
    (taken,) = bound("127.0.0.1", 0)
    port = taken.getsockname()[1]
    with taken, pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))
    with socket.create_server(("127.0.0.1", 0)) as other, pytest.raises(typer.Exit):
        bound("127.0.0.1", other.getsockname()[1])


def test_a_port_that_is_taken_while_the_service_loads(tmp_path: Path) -> None:
    """Two programs may have one port while neither listens; the first that listens gets it."""
    code = """if True:
        import sys
        import service.cli.serve
        from service.cli.listening import bound
        from service.cli.main import cli
        def taken(host, port):
            ours, others = bound(host, port), bound(host, port)
            others[0].listen()
            kept.extend(others)
            return ours
        kept = []
        service.cli.serve.bound = taken
        cli(["serve", "--port", sys.argv[1]])
    """
    port = free_port()
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "DRYSERVE_CACHE": str(tmp_path / "hub")}
    words = (sys.executable, "-c", code, str(port))
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=60, check=False)  # noqa: S603 - our own
    assert (done.returncode, f"Port {port} of 127.0.0.1 is taken" in done.stderr) == (6, True)


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_person_is_greeted_on_a_terminal(workers: str) -> None:
    port = free_port()
    terminal, inside = os.openpty()
    command = [sys.executable, "-m", "service", "serve", "--port", str(port), "--workers", workers]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    with subprocess.Popen(  # noqa: S603 - our own
        command, env=environment, stdout=inside, stderr=subprocess.DEVNULL
    ) as process:
        try:
            printed = b""
            while b"/plan" not in printed:
                assert select.select([terminal], [], [], 60)[0], printed
                printed += os.read(terminal, 4096)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(20)
            os.close(terminal)
            os.close(inside)
    _check_greeting(printed.decode().replace("\r\n", "\n"), port)


@pytest.mark.parametrize("chunked", [False, True])
def test_a_log_is_the_whole_body(*, chunked: bool, server: tuple[int, subprocess.Popen[str]]) -> None:
    """The server goes on answering: a route that read its body twice once held the event loop."""
    port, _ = server
    lines = [b"INFO 11-01 10:00:00 [api_server.py:1] vLLM API server version 0.19.0\n"] * 2_000
    lines.append(b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n")
    body = iter(lines) if chunked else b"".join(lines)
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("POST", "/explain", body, {"Content-Type": "text/plain"}, encode_chunked=chunked)
    reply = connection.getresponse()
    assert (reply.status, "out of memory" in reply.read().decode()) == (200, True)
    connection.request("GET", "/livez")
    assert connection.getresponse().status == 200
    connection.close()


@pytest.mark.slow
def test_who_waits_keeps_it_from_no_end(tmp_path: Path) -> None:
    """A stream of events and a worker's long poll are ended, in order; 10 s are given."""
    port = free_port()
    environment = {
        **os.environ,
        "HF_HUB_OFFLINE": "1",
        "DRYSERVE_DATABASE_URL": f"sqlite:///{tmp_path}/probes.db",
    }
    tokens = {scope: _token(environment, scope) for scope in ("operator", "worker")}
    command = [sys.executable, "-m", "service", "serve", "--port", str(port), "--local-worker"]
    with subprocess.Popen(  # noqa: S603 - our own
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            wait_until_ready(port)
            operator, worker, events = (HTTPConnection("127.0.0.1", port, timeout=30) for _ in range(3))
            inventory = {"kind": "inventory", "target": {"label": "nobodys"}}
            probe = _sent(operator, "POST", "/probes", tokens["operator"], inventory)
            events.request("GET", f"/probes/{probe['id']}/events", headers=_bearer(tokens["operator"]))
            stream = events.getresponse()
            offer = {"node": "n", "kinds": ["inventory"], "wait_seconds": 25}
            worker.request("POST", "/leases", json.dumps(offer), {**JSON, **_bearer(tokens["worker"])})
            assert b"probe" in stream.readline()
            started = time.monotonic()
            process.send_signal(signal.SIGTERM)
            assert worker.getresponse().status == 204
            assert b"queued" in stream.read()
            _, log = process.communicate(timeout=20)
            for connection in (operator, worker, events):
                connection.close()
        finally:
            process.kill()
    assert time.monotonic() - started < 20  # the worker offered to wait for 25
    assert process.returncode == -signal.SIGTERM
    assert "Traceback" not in log


def _token(environment: dict[str, str], scope: str) -> str:
    command = [sys.executable, "-m", "service", "token", "create", scope, "--scope", scope]
    made = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)  # noqa: S603
    return made.stdout.strip()


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def _sent(connection: HTTPConnection, method: str, path: str, token: str, body: object) -> dict[str, Any]:
    connection.request(method, path, json.dumps(body), {**JSON, **_bearer(token)})
    answer: dict[str, Any] = json.load(connection.getresponse())
    return answer


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
    assert json.loads(words[words.index("-d") + 1])["model"] == "google/gemma-4-31B-it"
    # `--json` needs curl 7.82; Ubuntu 22.04 has 7.81, RHEL 9 has 7.76.
    assert "Content-Type: application/json" in words
    assert words[-1] == f"http://127.0.0.1:{port}/plan"


def test_a_measurement_counts_what_was_asked(server: tuple[int, subprocess.Popen[str]]) -> None:
    figures = measure(server[0], Question("no-op", "/livez", None), connections=2, seconds=0.2)
    assert 0 < figures.p50_ms <= figures.p99_ms
    assert figures.requests_per_second > 0


def _serve(*words: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "service", "serve", *words]
    return subprocess.run(  # noqa: S603 - our own
        command,
        env={**os.environ, "HF_HUB_OFFLINE": "1", **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.slow
def test_a_taken_port_has_its_own_message_and_exit_code() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        ended = _serve("--port", str(port))

    assert (ended.returncode, ended.stdout) == (6, "")
    assert f"Port {port} of 127.0.0.1 is taken" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.slow
def test_a_bad_setting_is_one_line_and_a_wrong_name_a_warning() -> None:
    ended = _serve(DRYSERVE_PORT="abc", DRYSERVE_POTR="1")

    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.splitlines() == [
        "Warning: DRYSERVE_POTR is not a setting; the nearest is DRYSERVE_PORT",
        "DRYSERVE_PORT: 'abc' is not a whole number",
    ]


def test_the_help_lists_every_setting() -> None:
    shown = " ".join(CliRunner().invoke(cli, ["serve", "--help"]).stdout.split())
    for setting in settings_table():
        assert f"{setting.name} {setting.meaning}" in shown
