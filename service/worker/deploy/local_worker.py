"""Runs a worker on the service's own host, for a node with both."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from service.store.token import Scope

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from service.store.tokens import TokenStore

NAME: Final = "local"
PATIENCE_SECONDS: Final = 3
PAUSE_SECONDS: Final = 5


@dataclass(frozen=True, slots=True)
class LocalWorker:
    """The options of the worker on the service's own host."""

    server: str
    """The service's address."""
    python: Path | None = None
    """Python of the environment that has torch or the engine; ``None`` for the service's own."""

    @property
    def options(self) -> tuple[str, ...]:
        """The worker's command line options, without its token."""
        return ("--server", self.server, *(() if self.python is None else ("--python", str(self.python))))


@asynccontextmanager
async def local_worker(tokens: TokenStore, worker: LocalWorker) -> AsyncIterator[None]:
    """Keep a worker of this service running; its token is created here and revoked at the end."""
    text = await tokens.create(NAME, Scope.WORKER)
    with tempfile.TemporaryDirectory(prefix="dryserve-") as folder:
        running = asyncio.create_task(_keep_running(worker, _written(text, Path(folder))))
        try:
            yield
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await tokens.revoke(text.split("_")[1])


def _written(token: str, folder: Path) -> Path:
    """Write a token to a file that only the service's user can read, and return the file."""
    file = folder / "token"
    file.touch(mode=0o600)
    file.write_text(token, "utf-8")
    return file


async def _keep_running(worker: LocalWorker, token_file: Path) -> None:
    options = (*worker.options, "--token-file", str(token_file), "--tied")
    while True:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "service", "worker", *options, stdin=asyncio.subprocess.PIPE
        )
        try:
            await process.wait()
        finally:
            if process.stdin is not None:
                process.stdin.close()
            try:
                await asyncio.wait_for(process.wait(), PATIENCE_SECONDS)
            except TimeoutError:
                # The keeper of its child notices that as well and ends all its descendants.
                process.kill()
        await asyncio.sleep(PAUSE_SECONDS)
