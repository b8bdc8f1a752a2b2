"""SiblingChannel: the line between a serving process and the one that started it.

One JSON document per line. A process says that it is ready, what its metrics are, and what it announces; it
asks for the sum of its siblings' metrics. When the line breaks, the process that started this one is gone.
"""

import asyncio
import json
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import structlog

from service.api.metrics import Metrics
from service.api.metrics_sum import LONGEST_LINE, Samples, samples_of
from service.application.announcements import Announcements

PUSH_SECONDS: Final = 1.0
"""Time between two reports of a process's metrics, which outlive it."""
PATIENCE_SECONDS: Final = 2.0

_log: Final = structlog.stdlib.get_logger("dryserve.siblings")


class SiblingChannel:
    """One end of the line, in a serving process."""

    def __init__(self, metrics: Metrics, announcements: Announcements) -> None:
        self._metrics = metrics
        self._announcements = announcements
        self._writer: asyncio.StreamWriter | None = None
        self._answer: asyncio.Future[Samples] | None = None
        self._asking = asyncio.Lock()

    async def open(self, connection: socket.socket) -> asyncio.StreamReader:
        """Open the line, and say that this process serves."""
        reader, self._writer = await asyncio.open_connection(sock=connection, limit=LONGEST_LINE)
        self._announcements.carriers.append(lambda text: self._send(announced=text))
        self._metrics.siblings = self.siblings
        self._send(ready=True)
        return reader

    async def run(self, reader: asyncio.StreamReader, on_end: Callable[[], None]) -> None:
        """Serve the line until it breaks, then call ``on_end``."""
        pushing = asyncio.create_task(self._push())
        try:
            with suppress(OSError):
                while line := await reader.readline():
                    self._take(json.loads(line))
        finally:
            pushing.cancel()
        on_end()

    async def siblings(self) -> Samples:
        """Return the sum of the metrics of the other processes; none if they do not come in time."""
        async with self._asking:
            self._answer = asyncio.get_running_loop().create_future()
            self.push()  # what was scraped once is not lost with this process
            self._send(asks=True)
            try:
                return await asyncio.wait_for(self._answer, PATIENCE_SECONDS)
            except TimeoutError:
                _log.warning("metrics of the other processes are missing")
                return []

    def push(self) -> None:
        """Report the metrics of this process."""
        self._send(metrics=samples_of(self._metrics.registry))

    async def _push(self) -> None:
        while True:
            self.push()
            await asyncio.sleep(PUSH_SECONDS)

    def _take(self, message: dict[str, Any]) -> None:
        if "announced" in message:
            self._announcements.receive(message["announced"])
        elif self._answer is not None and not self._answer.done():
            self._answer.set_result([(name, labels, value) for name, labels, value in message["samples"]])

    def _send(self, **message: object) -> None:
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(json.dumps(message).encode() + b"\n")
