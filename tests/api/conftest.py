"""The real application, offline: nothing is asked of any Hub."""

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, TypeAlias

import httpx2
import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from service.api.app import create_app
from service.api.app_options import AppOptions
from service.application.services import Services
from service.bootstrap import build_services
from service.logs import configure_service_logs
from service.settings import Settings
from service.store.database import Database
from service.store.token import Scope
from service.store.tokens import TokenStore

Client: TypeAlias = httpx2.AsyncClient


@pytest.fixture(scope="session", autouse=True)
def _plain_logs() -> None:
    # The default renders every exception for a terminal, with all locals, which takes seconds.
    configure_service_logs()


@pytest.fixture(scope="session")
def services() -> Services:
    return build_services(
        Settings(HF_HUB_OFFLINE=True), httpx2.AsyncClient(transport=httpx2.MockTransport(_nobody))
    )


@pytest.fixture(scope="session")
def app(services: Services) -> FastAPI:
    return create_app(services)


@pytest.fixture(scope="session")
def client(app: FastAPI) -> Iterator[TestClient]:
    with TestClient(app, base_url="http://dryserve.test") as client:
        yield client


@pytest.fixture
async def served(database_url: str) -> AsyncIterator[tuple[FastAPI, TokenStore]]:
    database = Database(database_url)
    nobody = httpx2.AsyncClient(transport=httpx2.MockTransport(lambda _: httpx2.Response(500)))
    services = build_services(Settings(HF_HUB_OFFLINE=True), nobody, database)
    yield create_app(services, AppOptions(open_reads=True)), services.probes.tokens
    await database.close()


@pytest.fixture
async def bearer(served: tuple[FastAPI, TokenStore]) -> AsyncIterator[Callable[..., Any]]:
    app, tokens = served
    opened = []

    async def of(scope: Scope | None, *, peer: str = "10.0.0.9", host: str = "dryserve.test") -> Client:
        transport = httpx2.ASGITransport(app=app, client=(peer, 4711), raise_app_exceptions=False)
        headers = {} if scope is None else {"Authorization": f"Bearer {await tokens.create('pool', scope)}"}
        client = Client(transport=transport, base_url=f"http://{host}", headers=headers)
        opened.append(client)
        return client

    yield of
    for client in opened:
        await client.aclose()


def _nobody(request: httpx2.Request) -> httpx2.Response:
    raise AssertionError(f"asked for {request.url}")
