"""The service in a process of its own."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection

PATIENCE_SECONDS = 120.0
OFFLINE = {"HF_HUB_OFFLINE": "1", "DRYSERVE_CACHE": ":memory:"}


@contextmanager
def running_server(settings: Mapping[str, str] = OFFLINE) -> Iterator[int]:
    """Start the service on a free port of loopback, and stop it afterwards.

    Raises:
        TimeoutError: it was not ready in time.
    """
    port = free_port()
    environment = {**os.environ, **settings, "DRYSERVE_LOG_LEVEL": "warning"}
    command = [sys.executable, "-m", "service", "serve", "--port", str(port)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as process:  # noqa: S603 - our own
        try:
            wait_until_ready(port)
            yield port
        finally:
            process.terminate()


def free_port() -> int:
    """Return a port of loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_until_ready(port: int) -> None:
    """Return once the service on a port can plan.

    Raises:
        TimeoutError: it could not in time.
    """
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        connection = HTTPConnection("127.0.0.1", port, timeout=1)
        try:
            connection.request("GET", "/readyz")
            if connection.getresponse().status == 200:
                return
        except OSError:
            time.sleep(0.01)
        finally:
            connection.close()
    raise TimeoutError(f"the service was not ready within {PATIENCE_SECONDS} s")
