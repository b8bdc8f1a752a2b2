"""Whose headers say where a request comes from."""

from typing import Any

import pytest
from fastapi import FastAPI

from service.bootstrap import build_app
from service.cli.http_server import HttpServer, ServedSockets
from service.settings import Settings


@pytest.mark.parametrize(
    ("trusted", "peer", "believed"),
    [
        ((), "127.0.0.1", False),
        (("10.0.0.0/8",), "127.0.0.1", False),
        (("10.0.0.0/8",), "10.1.2.3", True),
        (("192.0.2.7",), "192.0.2.7", True),
        (("192.0.2.7",), "192.0.2.8", False),
    ],
)
async def test_forwarded_addresses_are_believed_from_named_proxies_alone(
    trusted: tuple[str, ...], peer: str, believed: bool
) -> None:
    settings = Settings(HF_HUB_OFFLINE=True, trusted_proxies=trusted)
    app: FastAPI = build_app(settings)
    seen: list[str] = []

    async def looking(scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401 - the server's own
        del receive, send
        seen.append(scope["client"][0])

    server = HttpServer(app, settings, ServedSockets([], []), lambda: None)
    server.config.app = looking
    server.config.load()
    scope = {
        "type": "http",
        "client": (peer, 1),
        "scheme": "http",
        "headers": [(b"x-forwarded-for", b"203.0.113.9")],
    }
    await server.config.loaded_app(scope, None, None)
    assert seen == ["203.0.113.9" if believed else peer]
