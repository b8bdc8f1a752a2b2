"""A service and a worker beside it, and a probe's whole way through both."""

import logging
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import structlog

from service.api.app import create_app
from service.bootstrap import build_services
from service.settings import Settings
from service.store.database import Database
from service.store.token import Scope
from service.worker.devices import Devices, HostMemory
from service.worker.loop import Worker
from service.worker.node import Node
from service.worker.service_client import ServiceClient

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Way:
    """An operator's client, and the worker that takes what he asks for."""

    http: httpx2.AsyncClient
    worker: Worker

    async def goes(self, kind: str, plan: Json) -> Json:
        """Return a probe that was asked for, leased, run and handed in, and that has measured."""
        probe = await self.ends(kind, plan)
        assert probe["state"] == "succeeded", probe
        return probe

    async def ends(self, kind: str, plan: Json | None) -> Json:
        """Return a probe that was asked for, leased and handed in, whatever became of it."""
        body = {"kind": kind} if plan is None else {"kind": kind, "plan": plan}
        requested = await self.http.post("/probes", json=body)
        assert requested.status_code == 202, requested.text
        await self.worker.work(once=True)
        probe: Json = (await self.http.get(f"/probes/{requested.json()['id']}")).json()
        return probe


@asynccontextmanager
async def opened(python: Path, devices: Devices | None = None) -> AsyncIterator[Way]:
    """Open the way for probes by the Python of an environment that has torch or the engine.

    Args:
        python: of the environment.
        devices: the node's GPUs; this host's memory where they are left out.
    """
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        database = Database(f"sqlite:///{folder}/probes.db")
        stack.push_async_callback(database.close)
        nobody = await stack.enter_async_context(httpx2.AsyncClient())
        services = build_services(Settings(HF_HUB_OFFLINE=True), nobody, database)
        app, tokens = create_app(services), services.probes.tokens

        async def client(scope: Scope) -> httpx2.AsyncClient:
            headers = {"Authorization": f"Bearer {await tokens.create(scope, scope)}"}
            transport = httpx2.ASGITransport(app=app)
            made = httpx2.AsyncClient(transport=transport, base_url="http://dryserve", headers=headers)
            return await stack.enter_async_context(made)

        node = Node("node-1", folder / "state", python, on_host=devices is None)
        inward = ServiceClient(await client(Scope.WORKER), node.name)
        yield Way(await client(Scope.OPERATOR), Worker(node, devices or HostMemory(), inward))
