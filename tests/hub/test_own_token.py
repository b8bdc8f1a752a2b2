"""What a caller's own token opens is shown to nobody else, and kept on no disk."""

from pathlib import Path

import httpx2
import pytest
from starlette.testclient import TestClient

from service.api.app import create_app
from service.bootstrap import build_services
from service.hub.caches.cache import HubCache
from service.hub.errors import (
    HubRateLimited,
    HubTokenRefused,
    InvalidHubToken,
    ModelNotFound,
)
from service.hub.transport.credential import callers_own
from service.settings import Settings
from tests.hub.fake_hub import (
    MODEL,
    FakeHub,
    hub_with_model,
    refused,
)

ALICE, BOB = "hf_alice", "hf_bob"


def private_hub() -> FakeHub:
    """Return a Hub that shows its model to Alice alone."""
    hub = hub_with_model()
    answer = hub.answer

    async def guarded(request: httpx2.Request) -> httpx2.Response:
        if request.headers.get("Authorization") == f"Bearer {ALICE}":
            return await answer(request)
        hub.requests.append(request)
        return refused(401, "RepoNotFound")

    hub.answer = guarded  # type: ignore[method-assign]
    return hub


async def test_what_one_caller_may_see_no_other_is_shown(tmp_path: Path) -> None:
    hub, path = private_hub(), tmp_path / "hub.sqlite3"
    client = hub.client(cache=HubCache(path))
    fetched = await client.fetch(MODEL, credential=callers_own(ALICE))
    requested = len(hub.requests)
    assert await client.fetch(MODEL, credential=callers_own(ALICE)) == fetched
    assert len(hub.requests) == requested
    for credential in (callers_own(BOB), None):
        for revision in (None, fetched.revision):
            with pytest.raises(ModelNotFound):
                await client.fetch(MODEL, revision, credential)
    with pytest.raises(ModelNotFound):
        await hub.client(cache=HubCache(path)).fetch(MODEL)
    await client.close()
    assert await HubCache(path).check() == []


async def test_a_refusal_of_one_token_is_not_anothers() -> None:
    hub = private_hub()
    client = hub.client()
    with pytest.raises(ModelNotFound):
        await client.fetch(MODEL)
    assert (await client.fetch(MODEL, credential=callers_own(ALICE))).id == MODEL


async def test_a_used_up_quota_is_of_one_token() -> None:
    hub = hub_with_model()
    hub.play("", lambda: httpx2.Response(429, headers={"Retry-After": "9"}))
    client = hub.client()
    with pytest.raises(HubRateLimited):
        await client.fetch(MODEL, credential=callers_own(ALICE))
    hub.faults.clear()
    with pytest.raises(HubRateLimited):
        await client.fetch(MODEL, credential=callers_own(ALICE))
    assert (await client.fetch(MODEL)).id == MODEL


@pytest.mark.parametrize(
    ("status", "message"), [(401, "Invalid credentials in Authorization header"), (403, "Forbidden: no read")]
)
async def test_a_token_that_the_hub_does_not_accept_is_the_callers_fault(status: int, message: str) -> None:
    hub = hub_with_model()
    hub.play("", lambda: httpx2.Response(status, headers={"X-Error-Message": message}))
    with pytest.raises(HubTokenRefused):
        await hub.client().fetch(MODEL, credential=callers_own(BOB))


@pytest.mark.parametrize("token", ["", " ", "a b", "hf_x\r\nHost: evil.test", "hf_\u00e9", "x" * 513, "a,b"])
def test_what_is_no_token_is_put_into_no_header(token: str) -> None:
    with pytest.raises(InvalidHubToken) as refusal:
        callers_own(token)
    assert token.strip() == "" or token not in str(refusal.value)


def test_the_header_reaches_the_hub_and_no_log(caplog: pytest.LogCaptureFixture) -> None:
    hub = private_hub()
    http = httpx2.AsyncClient(transport=httpx2.MockTransport(hub.answer))
    settings = Settings(HF_ENDPOINT="https://hub.test")
    with TestClient(create_app(build_services(settings, http))) as asking:
        body = {"model": MODEL, "gpus": ["rtx-3090-24gb"]}
        asking.post("/plan", json=body, headers={"X-Hub-Token": ALICE})
        assert {request.headers.get("Authorization") for request in hub.requests} == {f"Bearer {ALICE}"}
        assert asking.post("/plan", json=body).json()["type"] == "/problems/model-not-found"
        reply = asking.get(f"/models/{MODEL}", headers={"X-Hub-Token": "not a token"})
        assert (reply.status_code, reply.json()["type"]) == (400, "/problems/invalid-hub-token")
    assert ALICE not in caplog.text
    assert ALICE not in repr(callers_own(ALICE))
