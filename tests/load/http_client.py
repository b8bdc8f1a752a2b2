"""A small HTTP/1.1 client on asyncio's streams: hundreds of connections in one process cost little."""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

HOST = "127.0.0.1"
LARGEST_HEAD = 1 << 16
OVERLOADED = 503


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer. ``seconds``: from the first byte sent to the last byte received."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    seconds: float


@dataclass
class Tally:
    """What came of many requests."""

    seconds: dict[int, list[float]] = field(default_factory=dict)
    """Durations by status."""
    errors: Counter[str] = field(default_factory=Counter)
    """Requests without an answer, by the kind of error."""

    def add(self, reply: Reply) -> None:
        self.seconds.setdefault(reply.status, []).append(reply.seconds)
        if reply.status == OVERLOADED and "retry-after" not in reply.headers:
            self.errors["503 without Retry-After"] += 1

    def count(self, status: int) -> int:
        return len(self.seconds.get(status, ()))

    def percentile(self, status: int, percent: float) -> float:
        """Return a percentile of the durations of one status, in seconds; 0 without any."""
        found = sorted(self.seconds.get(status, ()))
        return found[min(len(found) - 1, int(len(found) * percent / 100))] if found else 0.0

    def faults(self) -> int:
        """Return the number of requests that were neither answered nor refused for overload."""
        refused = sum(len(of) for status, of in self.seconds.items() if status not in {200, OVERLOADED})
        return refused + self.errors.total()

    def unexpected(self, *statuses: int) -> list[str]:
        """Return what was neither answered 200 nor with one of some statuses."""
        others = [f"{len(of)} x {status}" for status, of in self.seconds.items() if status not in statuses]
        return others + [f"{number} x {name}" for name, number in self.errors.items()]


class Connection:
    """One connection that stays open."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, path: str, body: Mapping[str, Any] | None = None) -> Reply:
        """Send a request and read its answer; opens the connection where it is closed.

        Raises:
            OSError, asyncio.IncompleteReadError: the connection failed.
        """
        if self._streams is None:
            self._streams = await asyncio.open_connection(HOST, self._port, limit=LARGEST_HEAD)
        reader, writer = self._streams
        started = time.perf_counter()
        writer.write(request(path, body))
        await writer.drain()
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:])}
        content = await reader.readexactly(int(headers.get("content-length", "0")))
        taken = time.perf_counter() - started
        if headers.get("connection") == "close":
            self.close()
        return Reply(int(head[0].split()[1]), headers, content, taken)

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


def request(path: str, body: Mapping[str, Any] | None = None) -> bytes:
    """Return the bytes of a request: GET, or POST of a JSON body."""
    if body is None:
        return f"GET {path} HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode()
    content = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content


async def ask_into(
    tally: Tally, connection: Connection, path: str, body: Mapping[str, Any] | None = None
) -> Reply | None:
    """Ask once, and count what comes of it."""
    try:
        reply = await connection.ask(path, body)
    except (OSError, asyncio.IncompleteReadError) as error:
        tally.errors[type(error).__name__] += 1
        connection.close()
        return None
    tally.add(reply)
    return reply
