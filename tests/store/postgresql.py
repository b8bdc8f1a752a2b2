"""A PostgreSQL server of our own, from the binaries of the system's package."""

import asyncio
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import asyncpg

from tests.bench.server import free_port

PACKAGED = Path("/usr/lib/postgresql")
PATIENCE_SECONDS = 30


def binaries() -> Path | None:
    """Return the folder of the server's programs, the newest release first."""
    packaged = sorted(PACKAGED.glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]), reverse=True)
    found = shutil.which("initdb")
    return next((path.parent for path in packaged), Path(found).parent if found else None)


class PostgresServer:
    """A server on loopback with a folder of its own, which can be stopped and started again."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self._programs, self._folder, self._data = programs, folder, folder / "data"
        self._identity = _unprivileged(folder)
        self._port = free_port()
        initdb = (programs / "initdb", "-D", self._data, "-U", "test", "-A", "trust", "-E", "UTF8", "-N")
        subprocess.run(initdb, check=True, stdout=subprocess.DEVNULL, **self._identity)  # noqa: S603 - our own
        self._running: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The server's address without a database."""
        return f"postgresql://test@127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start to serve, and wait until connections are accepted."""
        settings = {"listen_addresses": "127.0.0.1", "unix_socket_directories": "", "fsync": "off"}
        options = [text for name, value in settings.items() for text in ("-c", f"{name}={value}")]
        command = [str(self._programs / "postgres"), "-D", str(self._data), "-p", str(self._port), *options]
        with (self._folder / "log").open("ab") as log:
            self._running = subprocess.Popen(command, stderr=log, stdout=log, **self._identity)  # noqa: S603 - our own
        _wait(self._programs, self._port)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop to serve; by default all connections are ended, and SIGQUIT is a crash.

        It waits for no connection that a failed test left open.
        """
        if self._running is not None:
            self._running.send_signal(how)
            self._running.wait(PATIENCE_SECONDS)

    def signal_all(self, number: signal.Signals) -> None:
        """Send a signal to each of the server's processes, such as SIGSTOP for a disk that hangs."""
        assert self._running is not None
        children = Path(f"/proc/{self._running.pid}/task/{self._running.pid}/children").read_text().split()
        for each in (self._running.pid, *map(int, children)):
            with suppress(ProcessLookupError):
                os.kill(each, number)


@contextmanager
def postgres_server(programs: Path) -> Iterator[PostgresServer]:
    """Start a server; stop it at the end."""
    with tempfile.TemporaryDirectory(prefix="pg") as folder:
        server = PostgresServer(programs, Path(folder))
        try:
            server.start()
            yield server
        finally:
            server.stop()


@contextmanager
def running_postgresql(programs: Path) -> Iterator[str]:
    """Start a server; yield its address without a database."""
    with postgres_server(programs) as server:
        yield server.url


def new_database(server: str) -> str:
    """Make an empty database on a server; return its address."""
    name = f"d{uuid.uuid4().hex}"

    async def create() -> None:
        connection = await asyncpg.connect(f"{server}/postgres")
        await connection.execute(f"CREATE DATABASE {name}")
        await connection.close()

    asyncio.run(create())
    return f"{server}/{name}"


def _unprivileged(folder: Path) -> dict[str, Any]:
    """Return who is to run the server, which refuses to be run by root."""
    if os.geteuid() != 0:
        return {}
    user = next(name for name in ("postgres", "nobody") if _exists(name))
    shutil.chown(folder, user)
    return {"user": user, "cwd": folder}


def _exists(user: str) -> bool:
    try:
        pwd.getpwnam(user)
    except KeyError:
        return False
    return True


def _wait(programs: Path, port: int) -> None:
    command = (programs / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(port))
    end = time.monotonic() + PATIENCE_SECONDS
    while subprocess.run(command, check=False).returncode:  # noqa: S603 - our own
        if time.monotonic() > end:
            raise TimeoutError("PostgreSQL did not start")
        time.sleep(0.1)
