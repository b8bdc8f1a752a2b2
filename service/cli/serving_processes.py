"""ServingProcesses: several processes that serve the same sockets.

This process opens the sockets and starts the others, which accept connections as they have time. One that
ends is started again. On SIGHUP each is replaced by a new one, one after another: the new one serves before
the old one stops, so that no connection is refused. The metrics of ended processes stay here, so that sums
never shrink.
"""

import asyncio
import json
import signal
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import structlog
import typer

from service.api.metrics_sum import LONGEST_LINE, Samples, added, cumulative
from service.cli.exit_codes import ExitCode
from service.settings import Settings

START_SECONDS: Final = 60.0
"""Time in which a new process must serve."""
PAUSE_SECONDS: Final = 1.0
"""Pause before a process that ended by itself is started again."""

_log: Final = structlog.stdlib.get_logger("dryserve.serving")


class ServingProcess:
    """One process, and the line to it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.ready = asyncio.Event()
        self.samples: Samples = []
        """Its metrics as it reported them last."""
        self._process: asyncio.subprocess.Process | None = None
        self._writer: asyncio.StreamWriter | None = None
        self.ended: asyncio.Task[int] | None = None

    async def start(
        self, command: Sequence[str], sockets: Sequence[int], receive: Callable[[Mapping[str, Any]], None]
    ) -> None:
        """Start it; ``receive`` gets each message."""
        ours, theirs = socket.socketpair()
        with theirs:
            passed = [*sockets, theirs.fileno()]
            self._process = await asyncio.create_subprocess_exec(
                *command, "--inherited", ",".join(map(str, passed)), pass_fds=passed
            )
        reader, self._writer = await asyncio.open_connection(sock=ours, limit=LONGEST_LINE)
        self.ended = asyncio.create_task(self._run(reader, receive))

    async def _run(self, reader: asyncio.StreamReader, receive: Callable[[Mapping[str, Any]], None]) -> int:
        with suppress(OSError, ValueError):
            while line := await reader.readline():
                message = json.loads(line)
                if "ready" in message:
                    self.ready.set()
                elif "metrics" in message:
                    self.samples = [(name, labels, value) for name, labels, value in message["metrics"]]
                else:
                    receive(message)
        if self._writer is not None:
            self._writer.close()
        return 0 if self._process is None else await self._process.wait()

    def send(self, **message: object) -> None:
        """Send a message."""
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(json.dumps(message).encode() + b"\n")

    async def is_ready(self) -> bool:
        """Wait until it serves; return whether it does, and has not ended before."""
        if self.ended is None:
            return False
        waiting = asyncio.ensure_future(self.ready.wait())
        await asyncio.wait({waiting, self.ended}, timeout=START_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        return self.ready.is_set() and not self.ended.done()

    async def stop(self, seconds: float) -> None:
        """End it in order; kill it where that takes longer than so many seconds."""
        if self._process is None or self.ended is None:
            return
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                self._process.send_signal(number)
            done, _ = await asyncio.wait({self.ended}, timeout=seconds)
            if done:
                return


class ServingProcesses:
    """All processes that serve the same sockets."""

    def __init__(
        self, options: Sequence[str], sockets: Sequence[socket.socket], number: int, stop_seconds: float
    ) -> None:
        """``options``: of `dryserve serve`, for each process. ``number``: how many serve.

        ``stop_seconds``: time in which a process must end, its requests included; after that it is killed.
        """
        self._command = [sys.executable, "-m", "service", "serve", *options]
        self._sockets = [each.fileno() for each in sockets]
        self._number = number
        self._stop_seconds = stop_seconds
        self._running: list[ServingProcess] = []
        self._ended: Samples = []
        self._stopping = asyncio.Event()
        self._restarting = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, on_start: Callable[[], None]) -> signal.Signals | None:
        """Serve until a signal ends it; return the signal, or None where the processes could not start."""
        loop, received = asyncio.get_running_loop(), list[signal.Signals]()

        def stop(number: signal.Signals) -> None:
            received.append(number)
            self._stopping.set()

        for each in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(each, stop, each)
        loop.add_signal_handler(signal.SIGHUP, lambda: self._do(self._restart()))
        started = await asyncio.gather(*(self._start(number) for number in range(self._number)))
        if all(started):
            on_start()
            await self._stopping.wait()
        self._stopping.set()
        await asyncio.gather(*(process.stop(self._stop_seconds) for process in self._running))
        return received[0] if received else None

    async def _start(self, number: int) -> bool:
        """Start a process; return whether it serves."""
        process = ServingProcess(number)
        leader = ["--first"] if number == 0 else []
        await process.start(
            [*self._command, *leader], self._sockets, lambda message: self._take(process, message)
        )
        self._running.append(process)
        if not await process.is_ready():
            await process.stop(self._stop_seconds)
            self._forget(process)
            return False
        self._do(self._replace_at_its_end(process))
        return True

    async def _replace_at_its_end(self, process: ServingProcess) -> None:
        if process.ended is not None:
            code = await process.ended
        if process not in self._running:
            return  # it was replaced
        self._forget(process)
        while not self._stopping.is_set():
            _log.error("a serving process ended", number=process.number, code=code)
            await asyncio.sleep(PAUSE_SECONDS)
            if self._stopping.is_set() or await self._start(process.number):
                return

    async def _restart(self) -> None:
        """Replace every process by a new one, one after another."""
        async with self._restarting:
            for old in sorted(self._running, key=lambda each: each.number):
                if self._stopping.is_set():
                    return
                if not await self._start(old.number):
                    _log.error("a new process does not serve: the old ones stay")
                    return
                self._forget(old)
                await old.stop(self._stop_seconds)
            _log.info("all serving processes were replaced")

    def _forget(self, process: ServingProcess) -> None:
        if process in self._running:
            self._running.remove(process)
            self._ended = added([self._ended, cumulative(process.samples)])

    def _take(self, sender: ServingProcess, message: Mapping[str, Any]) -> None:
        others = [each for each in self._running if each is not sender]
        if "announced" in message:
            for each in others:
                each.send(announced=message["announced"])
        elif "asks" in message:
            sender.send(samples=added([self._ended, *(each.samples for each in others)]))

    def _do(self, work: Any) -> None:  # noqa: ANN401 - a coroutine
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def serve_in_processes(
    options: Sequence[str], sockets: Sequence[socket.socket], settings: Settings, on_start: Callable[[], None]
) -> None:
    """Serve some sockets in as many processes as the settings say, until a signal ends this one.

    ``on_start`` is called once all of them serve.

    Raises:
        typer.Exit: they could not start.
    """

    async def run() -> signal.Signals | None:
        processes = ServingProcesses(options, sockets, settings.workers, settings.stop_seconds)
        return await processes.run(on_start)

    ended_by = asyncio.run(run())
    if ended_by is None:
        raise typer.Exit(ExitCode.FAILED)
    # As one process does: its supervisor sees which signal ended it.
    signal.signal(ended_by, signal.SIG_DFL)
    signal.raise_signal(ended_by)
