"""Connections to the real server: those that say nothing, those that are slow, and too many of them."""

import asyncio
import json
import socket
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest
import uvicorn
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import StreamingResponse

from service.api.app import create_app
from service.api.connections.connection_limits import (
    OPERATORS_CONNECTIONS,
    RESERVED_FILES,
    ConnectionLimits,
    connections_allowed,
    listens_on_loopback,
)
from service.api.connections.limited_connection import LINGER_SECONDS, OnRefusal
from service.api.connections.server_protocol import protocol_of
from service.api.refusals import ConnectionRefusal
from service.application.services import Services

COMPILED = False
"""Whether the servers of a test read requests by httptools."""
PATIENCE = 30
LARGE = json.dumps({"model": "Qwen/Qwen3-8B"}).encode()
LARGE_HEAD = b"POST /plan HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
LARGE_REQUEST = LARGE_HEAD % len(LARGE) + LARGE
SMALL = json.dumps({"model": "Qwen/Qwen3-8B", "gpus": ["h100"], "search": False}).encode()
SMALL_REQUEST = LARGE_HEAD % len(SMALL) + SMALL
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest.fixture(autouse=True, params=[False, True], ids=["h11", "httptools"])
def _protocol(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run every test with both protocols; without httptools, with the one that is always there."""
    if request.param:
        pytest.importorskip("httptools")
    monkeypatch.setattr(sys.modules[__name__], "COMPILED", request.param)


@asynccontextmanager
async def engine_config(app: FastAPI, limits: ConnectionLimits, *refused: OnRefusal) -> AsyncIterator[int]:
    listening = socket.create_server(("127.0.0.1", 0), backlog=1024)
    config = uvicorn.Config(
        app,
        http=protocol_of(limits, *refused, compiled=COMPILED),
        ws="none",
        lifespan="off",
        log_config=None,
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    running = asyncio.create_task(server._serve([listening]))  # noqa: SLF001 - without signals
    try:
        async with asyncio.timeout(PATIENCE):
            while not server.started:  # noqa: ASYNC110 - it tells of no event
                await asyncio.sleep(0.01)
            yield listening.getsockname()[1]
    finally:
        server.should_exit = True
        await running
        listening.close()


async def opened(port: int, sent: bytes = b"") -> Connection:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(sent)
    await writer.drain()
    return reader, writer


async def answered(port: int, path: str) -> bytes:
    reader, writer = await opened(
        port, f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode()
    )
    answer = await reader.read()
    writer.close()
    return answer


async def closed(connection: Connection) -> bool:
    """Wait until the server closes a connection; return whether it did so without a word."""
    try:
        return await connection[0].read() == b""
    except ConnectionResetError:
        return True
    finally:
        connection[1].close()


async def test_300_silent_connections_keep_nobody_out_and_are_closed(app: FastAPI) -> None:
    async with engine_config(app, ConnectionLimits(4096, head=1.5)) as port:
        silent = [await opened(port) for _ in range(300)]
        for path in ("/livez", "/readyz", "/metrics", "/gpus"):
            assert (await answered(port, path)).startswith(b"HTTP/1.1 200")
        assert all(await asyncio.gather(*map(closed, silent)))
        assert (await answered(port, "/livez")).startswith(b"HTTP/1.1 200")


async def test_a_silent_connection_gives_way_to_a_new_one(app: FastAPI) -> None:
    async with engine_config(app, ConnectionLimits(20)) as port:
        silent = [await opened(port) for _ in range(20)]
        assert (await answered(port, "/gpus")).startswith(b"HTTP/1.1 200")
        # The oldest.
        assert await closed(silent[0])
        kept = silent[-1]
        kept[1].write(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await kept[0].readline()).startswith(b"HTTP/1.1 200")
        for _, writer in silent:
            writer.close()


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /livez HTTP/1.1\r\nHost: x\r\n",
        LARGE_HEAD % 100,
        # A later request on a connection that has been answered.
        b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\nGET /livez HTT",
    ],
    ids=["head", "body", "later"],
)
async def test_a_request_that_comes_byte_by_byte_is_cut_off(app: FastAPI, sent: bytes) -> None:
    async with engine_config(app, ConnectionLimits(100, head=0.5, body=0.5)) as port:
        reader, writer = await opened(port, sent)

        async def trickle() -> None:
            while True:
                writer.write(b"a")
                await asyncio.sleep(0.05)

        trickling = asyncio.create_task(trickle())
        try:
            async with asyncio.timeout(PATIENCE / 2):
                await reader.read()
        except ConnectionResetError:
            pass
        finally:
            trickling.cancel()
            writer.close()


@pytest.mark.parametrize(
    ("sent", "part"),
    [
        (b"G", "head"),
        (b"POST /plan HTTP/1.1\r\nHost: x\r\n", "head"),
        (LARGE_HEAD % 100, "body"),
        (LARGE_HEAD % 100 + b"{", "body"),
        (b"POST /plan HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n", "body"),
    ],
    ids=["method", "head", "no-body", "body", "chunks"],
)
async def test_a_slow_request_is_answered_before_its_connection_is_closed(
    app: FastAPI, sent: bytes, part: str
) -> None:
    counted: list[ConnectionRefusal] = []
    limits = ConnectionLimits(100, head=0.4, body=0.4)
    async with engine_config(app, limits, counted.append) as port:
        reader, writer = await opened(port, sent)
        head, _, body = (await asyncio.wait_for(reader.read(), PATIENCE)).partition(b"\r\n\r\n")
        status, *fields = head.decode().split("\r\n")
        assert status == "HTTP/1.1 408 Request Timeout"
        assert {"Connection: close", "Content-Type: application/problem+json"} <= set(fields)
        assert f"Content-Length: {len(body)}" in fields
        problem = json.loads(body)
        assert (problem["type"], problem["status"]) == ("/problems/slow-request", 408)
        assert f"the {part} of the request did not arrive within 0.4 s" in problem["detail"]
        assert counted == [ConnectionRefusal(f"slow_{part}")]
        writer.write(b"}" * 10)  # what comes too late is neither read nor answered
        await asyncio.sleep(LINGER_SECONDS + 0.2)
        assert reader.at_eof()
        assert counted == [ConnectionRefusal(f"slow_{part}")]
        writer.close()
        assert (await answered(port, "/livez")).startswith(b"HTTP/1.1 200")


async def test_a_late_head_behind_an_answer_gets_one_of_its_own(app: FastAPI) -> None:
    counted: list[ConnectionRefusal] = []
    async with engine_config(app, ConnectionLimits(100, head=0.4), counted.append) as port:
        reader, writer = await opened(port, b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
        first = await reader.readuntil(b'"}')
        writer.write(b"GET /gpus HT")
        rest = await asyncio.wait_for(reader.read(), PATIENCE)
        writer.close()
    assert first.startswith(b"HTTP/1.1 200")
    assert rest.startswith(b"HTTP/1.1 408")
    assert counted == [ConnectionRefusal.SLOW_HEAD]


async def test_no_words_are_mixed_into_an_answer_that_has_begun(services: Services) -> None:
    """The application answers before it has the body, and goes on while the body is late."""
    app = create_app(services)

    @app.post("/early")
    async def early(request: Request) -> StreamingResponse:
        del request

        async def lines() -> AsyncIterator[bytes]:
            for _ in range(20):
                yield b"x" * 10
                await asyncio.sleep(0.05)

        return StreamingResponse(lines())

    async with engine_config(app, ConnectionLimits(100, body=0.4)) as port:
        reader, writer = await opened(port, b"POST /early HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{")
        received = b""
        with suppress(ConnectionResetError):
            while chunk := await asyncio.wait_for(reader.read(1 << 16), PATIENCE):
                received += chunk
        writer.close()
    assert received.startswith(b"HTTP/1.1 200")
    assert b"408" not in received


async def test_no_answer_waits_for_the_caller_to_acknowledge_its_head(
    app: FastAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    protocol = protocol_of(ConnectionLimits(100), compiled=COMPILED)
    monkeypatch.setattr(sys.modules[__name__], "protocol_of", lambda *_, **__: protocol)
    async with engine_config(app, ConnectionLimits(100)) as port:
        reader, writer = await opened(port, b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
        await reader.readuntil(b'"}')
        (connection,) = vars(protocol)["idle"]
        accepted = connection.transport.get_extra_info("socket")
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        writer.close()


async def test_a_head_that_does_not_end_is_refused(app: FastAPI) -> None:
    async with engine_config(app, ConnectionLimits(100)) as port:
        reader, writer = await opened(port, b"GET /livez HTTP/1.1\r\nHost: x\r\nX-Long: ")
        answer = asyncio.create_task(reader.read())
        sent = 0
        while not answer.done() and sent < 1 << 24:
            with suppress(ConnectionError):
                writer.write(b"a" * 8192)
                await asyncio.sleep(0.001)
                sent += 8192
        assert sent < 1 << 20
        with suppress(ConnectionResetError):  # the rest of the head was on its way
            assert (await answer).startswith(b"HTTP/1.1 400")
        writer.close()


@pytest.mark.parametrize(
    "at_first", [b"", b"GET /livez HTT", SMALL_REQUEST[:-5]], ids=["none", "head", "body"]
)
async def test_a_request_that_is_on_its_way_when_the_server_stops_is_answered(
    app: FastAPI, at_first: bytes
) -> None:
    whole = SMALL_REQUEST if at_first == SMALL_REQUEST[:-5] else b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"
    async with engine_config(app, ConnectionLimits(100)) as port:
        reader, writer = await opened(port, at_first)
        await asyncio.sleep(0.05)
        stopping = asyncio.create_task(asyncio.sleep(0.1))
        stopping.add_done_callback(lambda _: writer.write(whole[len(at_first) :]))
    # The server stops here, and waits for the rest of the request.
    answer = await reader.read()
    writer.close()
    assert answer.startswith(b"HTTP/1.1 200")


async def test_a_silent_connection_does_not_keep_the_server_from_stopping(app: FastAPI) -> None:
    loop = asyncio.get_running_loop()
    async with engine_config(app, ConnectionLimits(100)) as port:
        silent = await opened(port)
        begun = loop.time()
    assert loop.time() - begun < PATIENCE / 2
    assert await closed(silent)


async def test_requests_that_follow_each_other_at_once_are_answered_in_order(app: FastAPI) -> None:
    first, last = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n", b"GET /gpus HTTP/1.1\r\nHost: x\r\n"
    async with engine_config(app, ConnectionLimits(100)) as port:
        reader, writer = await opened(port, LARGE_REQUEST + first + last + b"Connection: close\r\n\r\n")
        answer = await reader.read()
        writer.close()
    assert answer.count(b"HTTP/1.1 200") == 3
    assert answer.index(b'"verdict"') < answer.index(b'"status":"ok"') < answer.index(b'"gpus":[')


async def test_an_answer_that_is_not_read_is_cut_off(services: Services) -> None:
    app = create_app(services)

    @app.get("/long")
    def long() -> Any:  # noqa: ANN401 - any response
        return "x" * (64 << 20)

    async with engine_config(app, ConnectionLimits(100, drain=0.3)) as port:
        reader, writer = await opened(port, b"GET /long HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        await asyncio.sleep(1.5)
        received = 0
        try:
            while chunk := await reader.read(1 << 20):
                received += len(chunk)
        except ConnectionResetError:
            pass
        assert received < 64 << 20
        writer.close()


async def test_answers_that_wait_to_be_read_have_a_limit_together(services: Services) -> None:
    app = create_app(services)

    @app.get("/long")
    def long() -> Any:  # noqa: ANN401 - any response
        return "x" * (16 << 20)

    async with engine_config(app, ConnectionLimits(100, unread_bytes=40 << 20)) as port:
        opening = b"GET /long HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        waiting = []
        for _ in range(5):
            waiting.append(await opened(port, opening))
            assert (await waiting[-1][0].readline()).startswith(b"HTTP/1.1 200")
        received = []
        for reader, writer in waiting:
            try:
                received.append(len(await reader.read()) > 16 << 20)
            except ConnectionResetError:
                received.append(False)
            writer.close()
        # Those that waited longest were cut off.
        assert received == sorted(received)
        assert received[0] is False
        assert received[-1] is True


async def test_operators_are_answered_however_many_questions_are_asked(services: Services) -> None:
    gate = threading.Event()

    def held(question: Any) -> Any:  # noqa: ANN401 - the core's own
        gate.wait(PATIENCE)
        return services.plan(replace(question, gpus=question.gpus[:1]))

    async with engine_config(create_app(replace(services, plan=held)), ConnectionLimits(16)) as port:
        asking = [await opened(port, LARGE_REQUEST) for _ in range(16)]
        try:
            await asyncio.sleep(0.3)
            for path in ("/livez", "/readyz", "/health", "/metrics"):
                assert (await answered(port, path)).startswith(b"HTTP/1.1 200")
            refused = await answered(port, "/gpus")
            assert refused.startswith(b"HTTP/1.1 503")
            for part in (b"application/problem+json", b"/problems/too-many-connections", b"retry-after: 5"):
                assert part in refused
            # Beyond those that are let in for operators a connection is closed at once.
            more = [await opened(port, LARGE_REQUEST) for _ in range(OPERATORS_CONNECTIONS + 1)]
        finally:
            gate.set()
        first = await asyncio.gather(*(reader.readline() for reader, _ in asking))
        assert {line.split()[1] for line in first} == {b"200"}
        for _, writer in (*asking, *more):
            writer.close()


@pytest.mark.skipif(sys.platform == "win32", reason="no limit of open files there")
@pytest.mark.parametrize(
    ("soft", "hard", "allowed", "raised"),
    [
        (1 << 20, 1 << 20, 4096, None),
        (1024, 1 << 20, 4096, 4096 + RESERVED_FILES + OPERATORS_CONNECTIONS),
        (1024, 2048, 2048 - RESERVED_FILES - OPERATORS_CONNECTIONS, 2048),
        (64, 64, 1, 64),
    ],
)
def test_there_are_no_more_connections_than_files(
    soft: int, hard: int, allowed: int, raised: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    import resource  # noqa: PLC0415 - not everywhere

    specified: list[tuple[int, tuple[int, int]]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda which, limits: specified.append((which, limits)))
    assert connections_allowed(4096) == allowed
    assert specified == ([] if raised is None else [(resource.RLIMIT_NOFILE, (raised, hard))])


@pytest.mark.parametrize(
    ("host", "local"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("[::1]", True),
        ("localhost", True),
        ("0.0.0.0", False),  # noqa: S104 - said, not listened on
        ("::", False),
        ("10.0.0.1", False),
        ("dryserve.example", False),
        ("", False),
    ],
)
def test_only_loopback_is_local(host: str, local: bool) -> None:
    assert listens_on_loopback(host) is local
