"""A worker on the service's own host, for a node that has both."""

import asyncio
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from service.store.tokens import Scope, TokenStore

NAME: Final = "local"
PATIENCE_SECONDS: Final = 3
PAUSE_SECONDS: Final = 5


@dataclass(frozen=True, slots=True)
class LocalWorker:
    """How the worker of the service's own host is started."""

    server: str
    """The service's address."""
    python: Path | None = None
    """Of the environment that has torch or the engine; ``None`` for the service's own."""

    @property
    def options(self) -> tuple[str, ...]:
        """The worker's options, its token aside."""
        return ("--server", self.server, *(() if self.python is None else ("--python", str(self.python))))


@asynccontextmanager
async def local_worker(tokens: TokenStore, worker: LocalWorker) -> AsyncIterator[None]:
    """Keep a worker running that asks this service for jobs, under a token that lives as long as it does."""
    text = await tokens.create(NAME, Scope.WORKER)
    with tempfile.TemporaryDirectory(prefix="dryserve-") as folder:
        keeping = asyncio.create_task(_keep_running(worker, _written(text, Path(folder))))
        try:
            yield
        finally:
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)
            await tokens.revoke(text.split("_")[1])


def _written(token: str, folder: Path) -> Path:
    """Write a token where nobody else can read it; the folder is its maker's alone."""
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
                # Its child's keeper sees that, too, and ends what is below it.
                process.kill()
        await asyncio.sleep(PAUSE_SECONDS)
