"""The page of probes: who may see it, what it says of jobs, and what was measured beside what was planned."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from service.api.app import create_app
from service.api.app_options import AppOptions
from service.api.examples import NODE
from service.bootstrap import build_services
from service.settings import Settings
from service.store.database import Database
from service.store.token import Scope
from tests.api.test_probes import LEASE, MEASURED, PROBE
from tests.web.conftest import BROWSER, words

PAGE = {"Accept": BROWSER}


@pytest.fixture
async def clients(tmp_path: Path) -> AsyncIterator[dict[str, httpx2.AsyncClient]]:
    database = Database(f"sqlite:///{tmp_path}/probes.db")
    nobody = httpx2.AsyncClient(transport=httpx2.MockTransport(lambda _: httpx2.Response(500)))
    services = build_services(Settings(HF_HUB_OFFLINE=True), nobody, database)
    app = create_app(services, AppOptions(open_reads=True))

    def client(host: str, peer: str, token: str = "") -> httpx2.AsyncClient:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        transport = httpx2.ASGITransport(app=app, client=(peer, 4711))
        return httpx2.AsyncClient(transport=transport, base_url=f"http://{host}", headers=headers)

    tokens = services.probes.tokens
    found = {
        "operator": client("dryserve.test", "10.0.0.9", await tokens.create("pool", Scope.OPERATOR)),
        "worker": client("dryserve.test", "10.0.0.9", await tokens.create("node", Scope.WORKER)),
        "local": client("127.0.0.1", "127.0.0.1"),
        "far": client("dryserve.test", "10.0.0.9"),
    }
    yield found
    for each in found.values():
        await each.aclose()
    await database.close()


async def test_only_this_machine_reads_without_a_token(clients: dict[str, httpx2.AsyncClient]) -> None:
    await clients["operator"].post("/probes", json=PROBE)
    refused = await clients["far"].get("/probes", headers=PAGE)
    assert refused.status_code == 401
    assert "needs a token" in words(refused.text)
    assert "Qwen" not in refused.text
    rebound = await clients["local"].get("/probes", headers={**PAGE, "Host": "evil.example"})
    assert rebound.status_code == 401
    assert (await clients["local"].get("/probes", headers=PAGE)).status_code == 200
    assert (await clients["operator"].get("/probes")).headers["content-type"] == "application/json"


async def test_an_empty_list_says_what_probes_are(clients: dict[str, httpx2.AsyncClient]) -> None:
    page = await clients["local"].get("/probes", headers=PAGE)
    assert "No probe was asked for yet." in words(page.text)


async def test_a_probe_from_the_queue_to_its_figures(clients: dict[str, httpx2.AsyncClient]) -> None:
    probe: dict[str, Any] = (await clients["operator"].post("/probes", json=PROBE)).json()
    waiting = (await clients["local"].get("/probes", headers=PAGE)).text
    assert f'data-events="probes/{probe["id"]}/events"' in waiting
    assert probe["waiting"] in words(waiting)
    lease = (await clients["worker"].post("/leases", json=LEASE)).json()
    result = {"node": NODE, "fence": lease["fence"], "result": MEASURED}
    sent = await clients["worker"].put(f"/probes/{probe['id']}/result", json=result)
    assert sent.status_code < 300, sent.text
    ended = (await clients["local"].get("/probes", headers=PAGE)).text
    shown = words(ended)
    assert "succeeded" in shown
    assert "data-events" not in ended
    planned = probe["predicted"]["memory"]
    for term, measured in (("weights", 16.0), ("available_kv", 50.0)):
        words_of_term = f"planned {planned[term]['bytes'] / 2**30:.2f} GiB, measured {measured:.2f} GiB"
        assert words_of_term in shown
