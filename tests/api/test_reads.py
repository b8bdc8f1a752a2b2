"""Who reads probes and measurements without a token: callers on the host, where only the host can ask."""

import gc
import socket
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from service.bootstrap import build_app
from service.cli import http_server
from service.cli import serve as command
from service.cli.http_server import ServedSockets
from service.settings import Settings

PATHS = ("/probes", "/measurements", "/calibrations")


@pytest.fixture(autouse=True)
def _own_database(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DRYSERVE_DATABASE_URL", f"sqlite:///{tmp_path}/probes.db")
    monkeypatch.setenv("DRYSERVE_CACHE", ":memory:")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for name in ("DRYSERVE_OPEN_READS", "DRYSERVE_HOST"):
        monkeypatch.delenv(name, raising=False)


async def statuses(app: FastAPI, **headers: str) -> set[int]:
    transport = httpx2.ASGITransport(app=app, client=("127.0.0.1", 4711))
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8501") as client:
        return {(await client.get(path, headers=headers)).status_code for path in PATHS}


def served(monkeypatch: pytest.MonkeyPatch, host: str | None) -> FastAPI:
    """Return the application that `dryserve serve` would serve."""
    seen: list[FastAPI] = []

    class Unstarted:
        def __init__(self, app: FastAPI, _: Settings, sockets: ServedSockets, __: object) -> None:
            seen.append(app)
            self._sockets = sockets.public

        def listen(self) -> None:
            """Nothing is served."""

        def serve_sockets(self) -> bool:
            for each in self._sockets:
                each.close()
            return True

    monkeypatch.setattr(http_server, "HttpServer", Unstarted)
    # Not every host has each of these addresses.
    monkeypatch.setattr(command, "bound", lambda *_: [socket.create_server(("127.0.0.1", 0))])
    command.serve(
        host=host,
        port=0,
        admin_port=None,
        workers=None,
        root_path=None,
        local_worker=False,
        worker_python=None,
        inherited_sockets=None,
        first=False,
    )
    gc.enable()  # as the service does once it has started
    (app,) = seen
    return app


@pytest.mark.parametrize(
    ("host", "specified", "status"),
    [
        (None, None, 200),
        ("localhost", None, 200),
        ("::1", None, 200),
        # Strangers can reach it, so that a proxy on this host may bring them.
        ("0.0.0.0", None, 401),  # noqa: S104 - said, not listened on
        ("192.0.2.1", None, 401),
        ("127.0.0.1", "0", 401),
        ("0.0.0.0", "1", 200),  # noqa: S104 - as above
    ],
)
async def test_it_depends_on_what_is_listened_on(
    host: str | None, specified: str | None, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if specified is not None:
        monkeypatch.setenv("DRYSERVE_OPEN_READS", specified)
    assert await statuses(served(monkeypatch, host)) == {status}


async def test_an_application_that_another_server_serves_is_closed_unless_told() -> None:
    assert await statuses(build_app(Settings())) == {401}
    assert await statuses(build_app(Settings(open_reads=True))) == {200}


@pytest.mark.parametrize("header", ["X-Forwarded-For", "X-Forwarded-Proto", "X-Real-IP", "Via", "Forwarded"])
async def test_what_a_proxy_adds_closes_it(header: str) -> None:
    app = build_app(Settings(), open_reads=True)
    assert await statuses(app) == {200}
    assert await statuses(app, **{header: "10.0.0.1"}) == {401}


def test_the_plainest_nginx_is_told_by_its_http() -> None:
    """`proxy_pass http://127.0.0.1:8501;` sends HTTP/1.0, this address as Host, and no header of its own."""
    app = build_app(Settings(), open_reads=True)

    async def old(scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401 - the server's own
        await app({**scope, "http_version": "1.0", "client": ("127.0.0.1", 1)}, receive, send)

    client = TestClient(old, base_url="http://127.0.0.1:8501")
    assert {client.get(path).status_code for path in PATHS} == {401}
    assert client.get("/livez").status_code == 200
