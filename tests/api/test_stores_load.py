"""The stores' library is imported beside the event loop, which serves others meanwhile."""

import threading
from pathlib import Path

import httpx2
import pytest

from service.api.app import create_app
from service.api.app_options import AppOptions
from service.bootstrap import build_services
from service.settings import Settings
from service.store.database import Database
from service.store.stores import Stores


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/v1/probes", {}),
        ("/v1/calibrations", {"Authorization": "Bearer wrong"}),
        ("/probes", {"Accept": "text/html"}),
    ],
)
async def test_the_first_question_about_probes_makes_the_stores_in_a_thread(
    path: str, headers: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []
    load = Stores.load

    def loaded(stores: Stores) -> None:
        threads.append(threading.get_ident())
        load(stores)

    monkeypatch.setattr(Stores, "load", loaded)
    database = Database(f"sqlite:///{tmp_path}/jobs.db")
    nobody = httpx2.AsyncClient(transport=httpx2.MockTransport(lambda _: httpx2.Response(500)))
    services = build_services(Settings(HF_HUB_OFFLINE=True), nobody, database)
    app = create_app(services, AppOptions(open_reads=True))
    transport = httpx2.ASGITransport(app, client=("127.0.0.1", 5))

    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        for _ in range(2):
            await client.get(path, headers=headers)
    await database.close()

    assert services.probes.stores.loaded
    assert len(threads) == 1
    assert threads[0] != threading.get_ident()
