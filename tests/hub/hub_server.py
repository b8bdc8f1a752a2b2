"""The fake Hub behind a socket: what the Hub's own client library may ask, and faults of the wire.

`FakeHub` says what is answered; this says how it comes over: whole, or with one of `FAULTS`.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import httpx2

from tests.hub.fake_hub import FakeHub, refused

Headers = dict[str, str]
Play = Callable[["HubServer", asyncio.StreamWriter, httpx2.Response], Awaitable[None]]

FIFTY_MEGABYTES = 50 << 20
LIMITED = {"RateLimit": '"api";r=0;t=55', "RateLimit-Policy": '"fixed window";"api";q=500;w=300'}
HTML = {"Content-Type": "text/html; charset=utf-8"}
JSON = {"Content-Type": "application/json"}
DEEP = b'{"a":' + b"[" * 50_000 + b"]" * 50_000 + b"}"


@dataclass
class HubServer:
    """Serves a fake Hub on a loopback port of its own.

    Attributes:
        fault: how answers go wrong; None for well.
        of: what the path of the requests at fault ends with.
        seconds: how long every answer takes.
    """

    hub: FakeHub
    fault: Play | None = None
    of: str = ""
    seconds: float = 0.0
    port: int = 0
    in_progress: int = 0
    most_in_progress: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def storage(self) -> str:
        """The same server under another name, which is another host to whoever asks."""
        return f"http://localhost:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._serve_one(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client, or the test, is done
        finally:
            writer.transport.abort()

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").splitlines()
        method, target, _ = head[0].split(" ")
        headers = dict(line.split(": ", 1) for line in head[1:] if line)
        lengths = {name.lower(): value for name, value in headers.items()}
        body = await reader.readexactly(int(lengths.get("content-length", "0")))
        request = httpx2.Request(method, httpx2.URL(self.endpoint + target), headers=headers, content=body)
        self.in_progress += 1
        self.most_in_progress = max(self.most_in_progress, self.in_progress)
        try:
            await asyncio.sleep(self.seconds)
            response = await self.hub.answer(request)
            path = target.partition("?")[0]
            if self.fault is not None and path.endswith(self.of):
                await self.fault(self, writer, response)
            else:
                await send(writer, response, body=method != "HEAD")
        finally:
            self.in_progress -= 1
        return not writer.is_closing()


async def send(writer: asyncio.StreamWriter, response: httpx2.Response, *, body: bool = True) -> None:
    """Send an answer as it is."""
    content = response.content
    head = {name.title(): value for name, value in response.headers.items()}
    head.setdefault("Content-Length", str(len(content)))
    writer.write(_head(response.status_code, head))
    if body:
        writer.write(content)
    await writer.drain()


def _head(status: int, headers: Headers) -> bytes:
    lines = [f"HTTP/1.1 {status} X", *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def _instead(status: int, headers: Headers, content: bytes = b"") -> Play:
    async def play(_: HubServer, writer: asyncio.StreamWriter, __: httpx2.Response) -> None:
        await send(writer, httpx2.Response(status, headers=headers, content=content))

    return play


def _refused_as(status: int, code: str) -> Play:
    async def play(_: HubServer, writer: asyncio.StreamWriter, __: httpx2.Response) -> None:
        await send(writer, refused(status, code))

    return play


async def _stall(_: HubServer, writer: asyncio.StreamWriter, __: httpx2.Response) -> None:
    del writer
    await asyncio.sleep(3600)


async def _drip(_: HubServer, writer: asyncio.StreamWriter, __: httpx2.Response) -> None:
    writer.write(_head(200, {"Content-Type": "application/json", "Content-Length": "100000"}))
    for _byte in range(100_000):
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0.1)


async def _reset(_: HubServer, writer: asyncio.StreamWriter, __: httpx2.Response) -> None:
    writer.write(_head(200, {"Content-Type": "application/json", "Content-Length": "100000"}) + b'{"a": ')
    await writer.drain()
    writer.transport.abort()


async def _truncate(_: HubServer, writer: asyncio.StreamWriter, response: httpx2.Response) -> None:
    half = response.content[: len(response.content) // 2]
    await send(writer, httpx2.Response(200, headers=JSON, content=half))


async def _flood(_: HubServer, writer: asyncio.StreamWriter, __: httpx2.Response) -> None:
    writer.write(_head(200, {"Content-Type": "application/json", "Content-Length": str(FIFTY_MEGABYTES)}))
    for _chunk in range(FIFTY_MEGABYTES >> 16):
        writer.write(b" " * (1 << 16))
        await writer.drain()


FAULTS: dict[str, Play] = {
    "stall": _stall,
    "slow drip": _drip,
    "reset mid-body": _reset,
    "429": _instead(429, LIMITED),
    "5xx": _instead(503, {}),
    "HTML with 200": _instead(200, HTML, b"<html>sign in to the network</html>"),
    "truncated": _truncate,
    "50 MB": _flood,
    "deep JSON": _instead(200, JSON, DEEP),
    "off-host redirect": _instead(302, {"Location": "http://evil.invalid/config.json"}),
    "gated": _refused_as(403, "GatedRepo"),
    "missing": _refused_as(404, "RepoNotFound"),
    "bad revision": _refused_as(404, "RevisionNotFound"),
}
"""Faults of a server that can be reached; that of names and that of TLS are faults of the address."""


@contextmanager
def serving(hub: FakeHub, *, seconds: float = 0.0) -> Iterator[HubServer]:
    """Serve a fake Hub from a thread of its own until left."""
    server = HubServer(hub, seconds=seconds)
    started = threading.Event()
    stop: asyncio.Event
    loop: asyncio.AbstractEventLoop

    async def run() -> None:
        nonlocal stop, loop
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
        server.port = listening.sockets[0].getsockname()[1]
        started.set()
        await stop.wait()
        listening.close()
        serving = asyncio.all_tasks() - {asyncio.current_task()}
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)
        await listening.wait_closed()

    thread = threading.Thread(target=lambda: asyncio.run(run()), daemon=True)
    thread.start()
    assert started.wait(5)
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(5)


def index_of(shards: int) -> bytes:
    """Return the index of a model of many shards, as the Hub's own library writes it."""
    weights = {
        f"model.layers.{layer}.mlp.experts.{expert}.up_proj.weight": shard_name(layer % shards + 1, shards)
        for layer in range(61)
        for expert in range(256)
    }
    return json.dumps({"metadata": {"total_size": 688_586_727_753}, "weight_map": weights}, indent=2).encode()


def shard_name(number: int, of: int) -> str:
    """Return the name of one of a model's files, as the Hub's own library writes it."""
    return f"model-{number:05}-of-{of:05}.safetensors"
