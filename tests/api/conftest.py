"""The real application, offline: nothing is asked of any Hub."""

from collections.abc import Iterator

import httpx2
import pytest
import structlog
from fastapi import FastAPI
from starlette.testclient import TestClient

from service.api.app import create_app
from service.api.services import Services
from service.bootstrap import build_services
from service.settings import Settings


@pytest.fixture(scope="session", autouse=True)
def _plain_logs() -> None:
    # The default renders every exception for a terminal, with all locals, which takes seconds.
    structlog.configure(
        processors=[structlog.stdlib.render_to_log_kwargs], logger_factory=structlog.stdlib.LoggerFactory()
    )


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


def _nobody(request: httpx2.Request) -> httpx2.Response:
    raise AssertionError(f"asked for {request.url}")
