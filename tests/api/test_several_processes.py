"""One port served by several processes: sums, restarts, events."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from tests.bench.server import free_port, wait_until_ready

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="children are found by /proc"),
]

PATIENCE = 60
JSON = {"Content-Type": "application/json"}
LIGHT = {"model": "Qwen/Qwen3-8B", "gpus": ["h100-sxm-80gb"]}
COUNTED = 'http_server_request_duration_seconds_count{http_request_method="POST",'


@contextmanager
def served(tmp_path: Path) -> Iterator[tuple[int, "subprocess.Popen[str]"]]:
    port = free_port()
    environment = {
        **os.environ,
        "HF_HUB_OFFLINE": "1",
        "DRYSERVE_DATABASE_URL": f"sqlite:///{tmp_path}/probes.db",
    }
    command = [sys.executable, "-m", "service", "serve", "--port", str(port), "--workers", "2"]
    log = tmp_path / "log"
    with (
        log.open("w") as written,
        subprocess.Popen(  # noqa: S603 - our own
            command, env=environment, stdout=subprocess.DEVNULL, stderr=written, text=True
        ) as process,
    ):
        try:
            wait_until_ready(port)
            until(lambda: len(children(process.pid)) == 2)
            until(lambda: f'"url": "http://127.0.0.1:{port}"' in log.read_text())
            yield port, process
        finally:
            process.terminate()
            process.wait(PATIENCE)


def children(pid: int) -> list[int]:
    return sorted(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.1)


def asked(port: int, path: str, body: object = None) -> tuple[int, Any]:
    connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.request(
            "GET" if body is None else "POST", path, None if body is None else json.dumps(body), JSON
        )
        reply = connection.getresponse()
        return reply.status, reply.read()
    finally:
        connection.close()


def counted(port: int) -> float:
    lines = asked(port, "/metrics")[1].decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(COUNTED))


def test_processes_share_a_port_and_their_metrics_add_up(tmp_path: Path) -> None:
    with served(tmp_path) as (port, process):
        for _ in range(20):
            assert asked(port, "/plan", LIGHT)[0] == 200
        # Another process's counts are a second old at most.
        until(lambda: counted(port) == 20)

        before = children(process.pid)
        os.kill(before[0], signal.SIGKILL)
        until(lambda: len(children(process.pid)) == 2 and before[0] not in children(process.pid))
        until(lambda: asked(port, "/livez")[0] == 200)
        assert counted(port) == 20

        assert asked(port, "/plan", LIGHT)[0] == 200
        until(lambda: counted(port) == 21)
    assert process.returncode == -signal.SIGTERM


def test_a_restart_replaces_every_process_and_refuses_nobody(tmp_path: Path) -> None:
    with served(tmp_path) as (port, process):
        before, answers = children(process.pid), list[int]()
        process.send_signal(signal.SIGHUP)
        end = time.monotonic() + PATIENCE
        while set(before) & set(children(process.pid)) or len(children(process.pid)) != 2:
            assert time.monotonic() < end, "they were not replaced"
            answers.append(asked(port, "/plan", LIGHT)[0])
        assert set(answers) == {200}
        assert asked(port, "/livez")[0] == 200


def test_it_ends_where_its_processes_cannot_start(tmp_path: Path) -> None:
    environment = {**os.environ, "DRYSERVE_DATABASE_URL": "sqlite:///x.db", "HF_ENDPOINT": "https://hub.test"}
    command = [sys.executable, "-m", "service", "serve", "--port", "0", "--workers", "2", "--local-worker"]
    command += ["--worker-python", str(tmp_path / "missing")]
    environment["DRYSERVE_DATABASE_URL"] = f"sqlite:///{tmp_path}/a-file/x.db"
    (tmp_path / "a-file").write_text("")
    ended = subprocess.run(  # noqa: S603 - our own
        command, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert ended.returncode == 3
