"""The real application, offline, asked as a browser asks."""

import re
from collections.abc import Callable, Iterator
from html import unescape
from typing import Any, TypeAlias
from urllib.parse import urlencode

import httpx2
import pytest
from starlette.testclient import TestClient

from service.api.app import create_app
from service.bootstrap import build_services
from service.logs import configure_service_logs
from service.settings import Settings

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"
Page: TypeAlias = Callable[..., str]


@pytest.fixture(scope="session", autouse=True)
def _plain_logs() -> None:
    configure_service_logs()


@pytest.fixture(scope="session")
def client() -> Iterator[TestClient]:
    def nobody(request: httpx2.Request) -> httpx2.Response:
        raise AssertionError(f"asked for {request.url}")

    services = build_services(
        Settings(HF_HUB_OFFLINE=True), httpx2.AsyncClient(transport=httpx2.MockTransport(nobody))
    )
    with TestClient(create_app(services), base_url="http://dryserve.test") as client:
        yield client


@pytest.fixture(scope="session")
def page(client: TestClient) -> Page:
    def get(path: str = "/plan", status: int = 200, **parameters: Any) -> str:  # noqa: ANN401
        answer = client.get(f"{path}?{urlencode(parameters, doseq=True)}", headers={"Accept": BROWSER})
        assert answer.status_code == status, answer.text
        return answer.text

    return get


def words(html: str) -> str:
    """Return the text of a page without its tags, in one line."""
    shown = re.sub(r"<(script|style)\b.*?</\1>", " ", html, flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", shown)).split())


def links(html: str) -> list[str]:
    """Return the addresses of a page's links."""
    return [unescape(each) for each in re.findall(r'href="([^"]+)"', html)]
