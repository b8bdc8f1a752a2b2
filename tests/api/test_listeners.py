"""Prefixes of proxies, and a listener for operators."""

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from service.api.app import create_app
from service.api.app_options import AppOptions
from service.api.middleware.connection_gate import ADMIN
from service.application.services import Services
from service.settings import InvalidSettings, Settings, read_settings


@pytest.fixture(scope="module")
def prefixed(services: Services) -> Iterator[TestClient]:
    with TestClient(create_app(services, AppOptions(root_path="/dry")), base_url="http://dry.test") as client:
        yield client


@pytest.mark.parametrize("prefix", ["", "/dry"])
@pytest.mark.parametrize("path", ["/livez", "/gpus", "/v1/gpus", "/docs", "/openapi.json"])
def test_paths_are_found_with_the_prefix_and_without(prefixed: TestClient, prefix: str, path: str) -> None:
    assert prefixed.get(f"{prefix}{path}").status_code == 200


def test_addresses_in_answers_have_the_prefix(prefixed: TestClient) -> None:
    problem = prefixed.get("/dry/v1/nothing").json()
    assert problem["type"] == "/dry/problems/not-found"
    assert prefixed.get(problem["type"]).status_code == 200
    assert 'url: "/dry/openapi.json"' in prefixed.get("/dry/docs").text.replace("'", '"')
    assert prefixed.get("/dry/openapi.json").json()["servers"][0]["url"] == "/dry"


def test_other_paths_that_begin_alike_are_not_cut(prefixed: TestClient) -> None:
    assert prefixed.get("/dryer/gpus").status_code == 404


@pytest.mark.parametrize(
    ("admin", "path", "status"),
    [
        (True, "/livez", 200),
        (True, "/metrics", 200),
        (True, "/gpus", 404),
        (True, "/plan", 404),
        (False, "/livez", 200),
        (False, "/readyz", 200),
        (False, "/gpus", 200),
        (False, "/metrics", 404),
    ],
)
def test_operators_and_callers_have_a_listener_each(
    services: Services, admin: bool, path: str, status: int
) -> None:
    app = create_app(services, AppOptions(has_admin=True))

    async def listener(scope: object, receive: object, send: object) -> None:
        if isinstance(scope, dict) and scope["type"] == "http":
            scope["state"] = {"over_limit": False, **({ADMIN: True} if admin else {})}
        await app(scope, receive, send)  # type: ignore[arg-type]

    with TestClient(listener) as client:
        reply = client.get(path)
    assert reply.status_code == status
    if status == 404:
        assert reply.headers["content-type"] == "application/problem+json"


def test_without_a_listener_of_their_own_operators_are_answered_with_all_others(services: Services) -> None:
    with TestClient(create_app(services)) as client:
        assert client.get("/metrics").status_code == 200


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("DRYSERVE_TRUSTED_PROXIES", "10.0.0.0/8,proxy", "'proxy' is no address or network"),
        ("DRYSERVE_ROOT_PATH", "dry", "'dry' is no prefix such as /dryserve"),
        ("DRYSERVE_ROOT_PATH", "//evil.example", "is no prefix"),
        ("DRYSERVE_WORKERS", "0", "'0' is not from 1 to 256"),
    ],
)
def test_wrong_settings_are_named(name: str, value: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(InvalidSettings, match=words):
        read_settings()


def test_limits_of_a_replica_are_shared_out_among_its_processes() -> None:
    shared = Settings(workers=4, max_connections=4096, database_pool_size=10).of_one_process
    assert (shared.max_connections, shared.database_pool_size) == (1024, 2)
    assert Settings(workers=64, database_pool_size=10).of_one_process.database_pool_size == 1
