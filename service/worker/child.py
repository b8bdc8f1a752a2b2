"""Starts and stops a child process under its keeper, together with every process that the child starts."""

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

KEEPER: Final = Path(__file__).with_name("keeper.py")
CHILDREN: Final = Path(__file__).with_name("children")
TIMED_OUT: Final = 124
STOPPED: Final = 125
PATIENCE_SECONDS: Final = 30
"""How long a keeper may take to end its descendants."""


@dataclass(frozen=True, slots=True)
class ChildEnd:
    """How a child ended."""

    code: int
    result: Mapping[str, Any] | None
    """The result that it wrote; None if it wrote none."""
    log: str


class Child:
    """One child process and the folder that it works in."""

    def __init__(self, folder: Path, process: asyncio.subprocess.Process) -> None:
        self._folder = folder
        self._process = process

    @classmethod
    async def start(
        cls,
        folder: Path,
        command: Sequence[str],
        job: Mapping[str, Any],
        *,
        wall_seconds: float,
        environment: Mapping[str, str],
    ) -> "Child":
        """Start a command in a folder, with its job in ``job.json``, for at most `wall_seconds`."""
        settings = {"command": list(command), "environment": dict(environment), "wall_seconds": wall_seconds}
        (folder / "job.json").write_text(json.dumps(job, default=dict), "utf-8")
        (folder / "child.json").write_text(json.dumps(settings), "utf-8")
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            str(KEEPER),
            str(folder),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
        )
        return cls(folder, process)

    @property
    def pid(self) -> int:
        """The keeper's process id."""
        return self._process.pid

    @property
    def phase(self) -> str:
        """The phase that the child reports, such as ``loading``; empty before it reports one."""
        with suppress(OSError):
            text = (self._folder / "phase").read_text("utf-8", "replace")
            return "".join(c for c in text if " " <= c <= "~")[:64]
        return ""

    async def ended(self, seconds: float) -> bool:
        """Wait for the end, for at most `seconds`; return whether the child has ended."""
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(self._process.wait()), seconds)
        return self._process.returncode is not None

    async def stop(self) -> None:
        """End the child and every process that it started."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        if not await self.ended(PATIENCE_SECONDS):
            self._process.kill()
            await self._process.wait()

    def end(self) -> ChildEnd:
        """Return how the child ended. Call it only after the end."""
        result = None
        with suppress(OSError, ValueError):
            result = json.loads((self._folder / "result.json").read_text("utf-8"))
        log = ""
        with suppress(OSError):
            log = (self._folder / "log").read_text("utf-8", "replace")
        return ChildEnd(self._process.returncode or 0, result if isinstance(result, dict) else None, log)
