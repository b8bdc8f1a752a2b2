"""How long a service that is told to stop goes on answering: DRYSERVE_STOP_SECONDS."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.bench.server import free_port, wait_until_ready

QUESTION = json.dumps({"model": "Qwen/Qwen3-8B", "include": ["details"]}).encode()
"""Some 13 MB of answer: more than the buffers of two sockets."""
HEAD = b"POST /plan HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
READ_SECONDS = 3.0
"""Time that the caller takes to read it: more than the shorter setting leaves, less than the longer one."""
SMALL_BUFFER = 1 << 16


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(("seconds", "is_whole"), [(4, False), (20, True)])
def test_a_long_answer_is_read_to_its_end_if_the_time_to_stop_allows(
    seconds: int, is_whole: bool, workers: int, tmp_path: Path
) -> None:
    port = free_port()
    given = {"HF_HUB_OFFLINE": "1", "DRYSERVE_CACHE": ":memory:", "DRYSERVE_STOP_SECONDS": str(seconds)}
    database = {"DRYSERVE_DATABASE_URL": f"sqlite:///{tmp_path}/probes.db", "DRYSERVE_LOG_LEVEL": "error"}
    command = [sys.executable, "-m", "service", "serve", "--port", str(port), "--workers", str(workers)]
    with (
        subprocess.Popen(  # noqa: S603 - our own
            command, env={**os.environ, **given, **database}, stdout=subprocess.DEVNULL
        ) as process,
        socket.socket() as caller,
    ):
        try:
            wait_until_ready(port)
            caller.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_BUFFER)
            caller.settimeout(60)
            caller.connect(("127.0.0.1", port))
            caller.sendall(HEAD % len(QUESTION) + QUESTION)
            received = caller.recv(SMALL_BUFFER)
            process.send_signal(signal.SIGTERM)
            stopped = time.monotonic()
            announced, length = _announced(received)
            received_bytes = len(received) + _read_slowly(caller, announced + length)
            assert (received_bytes == announced + length) is is_whole
            process.wait(seconds)
            assert time.monotonic() - stopped < seconds + 1
        finally:
            process.kill()
    assert process.returncode == -signal.SIGTERM


def _announced(start: bytes) -> tuple[int, int]:
    """Return the bytes of the head of an answer, and those that it announces."""
    head, _, _ = start.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200")
    lines = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
    return len(head) + 4, int(lines[b"content-length"])


def _read_slowly(caller: socket.socket, total: int) -> int:
    """Read an answer at an even rate, until it ends or is cut off; return the number of bytes."""
    received, started = 0, time.monotonic()
    try:
        while chunk := caller.recv(SMALL_BUFFER):
            received += len(chunk)
            time.sleep(max(0.0, READ_SECONDS * received / total - (time.monotonic() - started)))
            if received > total - SMALL_BUFFER:
                caller.settimeout(1)  # the connection stays open where the answer is whole
    except (TimeoutError, ConnectionResetError):
        pass
    return received
