"""Tokens over HTTP: those of a file, wrong ones, and what the service's own token of the Hub opens."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

from service.api.app import create_app
from service.api.errors import TooManyAttempts
from service.api.failed_attempts import ADDRESSES, MOST, WINDOW_SECONDS, FailedAttempts
from service.bootstrap import build_app, build_services
from service.cli.main import cli
from service.settings import Settings
from service.store.token import Scope
from tests.hub.fake_hub import MODEL, hub_with_model
from tests.store.conftest import SetClock

DECLARED, OWN = "d" * 40, "hf_own"


def test_a_declared_token_needs_no_database(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text(f"ops reader {DECLARED}\n")
    settings = Settings(
        HF_HUB_OFFLINE=True, tokens_file=file, database_url="postgresql://test@127.0.0.1:1/none"
    )
    with TestClient(create_app(build_services(settings, httpx2.AsyncClient()))) as client:
        # The token is accepted; only then the database is asked.
        for route in ("/probes", "/calibrations", "/measurements"):
            reply = client.get(route, headers={"Authorization": f"Bearer {DECLARED}"})
            assert (reply.status_code, int(reply.headers["Retry-After"]) > 0) == (503, True)
        refused = client.post("/probes", json={}, headers={"Authorization": f"Bearer {DECLARED}"})
        assert (refused.status_code, refused.json()["type"]) == (403, "/problems/forbidden")


async def test_who_sends_many_wrong_tokens_is_refused_for_a_while(bearer: Callable[..., Any]) -> None:
    valid, other = await bearer(Scope.READER), await bearer(Scope.READER, peer="10.0.0.2")
    assert (await valid.get("/probes")).status_code == 200
    wrong = {"Authorization": "Bearer dry_0_0"}
    for _ in range(MOST):
        assert (await valid.get("/probes", headers=wrong)).status_code == 401
    refused = await valid.get("/probes", headers=wrong)
    assert (refused.status_code, refused.json()["type"]) == (429, "/problems/too-many-attempts")
    assert 1 <= int(refused.headers["retry-after"]) <= WINDOW_SECONDS + 1
    # Callers behind the same proxy whose token was accepted before go on, and so do other addresses.
    assert (await valid.get("/probes")).status_code == 200
    assert (await other.get("/probes")).status_code == 200


def test_the_bound_on_attempts_ends_and_holds_few_addresses() -> None:
    clock = SetClock()
    attempts = FailedAttempts(clock)
    for _ in range(MOST):
        attempts.check("a", "x")
        attempts.note("a", "x", accepted=False)
    with pytest.raises(TooManyAttempts):
        attempts.check("a", "x")
    clock.now += WINDOW_SECONDS
    attempts.check("a", "x")
    attempts.note("a", "x", accepted=True)
    for number in range(ADDRESSES + 1):
        attempts.note(str(number), "y", accepted=False)
    assert len(vars(attempts)["_failed"]) == ADDRESSES


@pytest.mark.parametrize(
    ("share", "loopback", "sent"),
    [(None, True, True), (None, False, False), (True, False, True), (False, True, False)],
)
def test_the_services_own_hub_token_is_used_for_all_only_by_a_setting(
    share: bool | None, loopback: bool, sent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = hub_with_model()
    http = httpx2.AsyncClient(transport=httpx2.MockTransport(hub.answer))
    monkeypatch.setattr("service.hub.transport.transfer.hub_http", lambda: http)
    settings = Settings(HF_ENDPOINT="https://hub.test", HF_TOKEN=OWN, share_hub_token=share)
    with TestClient(build_app(settings, open_reads=loopback)) as client:
        client.get(f"/models/{MODEL}")
    tokens = {request.headers.get("Authorization") for request in hub.requests}
    assert tokens == {f"Bearer {OWN}" if sent else None}


def test_the_list_shows_use_and_expiry(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DRYSERVE_DATABASE_URL", f"sqlite:///{tmp_path}/x.db")
    run = CliRunner()
    assert run.invoke(cli, ["token", "create", "pool", "--scope", "worker", "--days", "30"]).exit_code == 0
    assert run.invoke(cli, ["token", "create", "ops", "--scope", "operator"]).exit_code == 0
    first, second = run.invoke(cli, ["token", "list"]).stdout.splitlines()
    assert "never used" in first
    assert "does not expire" not in first
    assert "does not expire" in second
