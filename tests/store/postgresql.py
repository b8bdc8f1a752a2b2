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
from contextlib import contextmanager
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


@contextmanager
def running_postgresql(programs: Path) -> Iterator[str]:
    """Start a server on loopback with a folder of its own; yield its address without a database."""
    with tempfile.TemporaryDirectory(prefix="pg") as folder:
        identity = _unprivileged(Path(folder))
        data, port = Path(folder, "data"), free_port()
        initdb = (programs / "initdb", "-D", data, "-U", "test", "-A", "trust", "-E", "UTF8", "-N")
        subprocess.run(initdb, check=True, stdout=subprocess.DEVNULL, **identity)  # noqa: S603 - our own
        settings = {"listen_addresses": "127.0.0.1", "unix_socket_directories": "", "fsync": "off"}
        options = [text for name, value in settings.items() for text in ("-c", f"{name}={value}")]
        with (
            Path(folder, "log").open("wb") as log,
            subprocess.Popen(  # noqa: S603 - our own
                (programs / "postgres", "-D", data, "-p", str(port), *options),
                stderr=log,
                stdout=log,
                **identity,
            ) as server,
        ):
            try:
                _wait(programs, port)
                yield f"postgresql://test@127.0.0.1:{port}"
            finally:
                # Fast: it waits for no connection that a failed test left open.
                server.send_signal(signal.SIGINT)


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
