"""The only place where parts are wired together."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import httpx2
from fastapi import FastAPI

from service.advisor.planning import plan
from service.advisor.shared_work import RecentWork
from service.api.app import create_app
from service.api.services import Services
from service.gpus.catalog import gpu_catalog
from service.hub.cache import Cache
from service.hub.client import HubClient
from service.hub.endpoint import Endpoint
from service.hub.snapshot import BundledSnapshot
from service.hub.source import ModelSource
from service.hub.transfer import hub_http
from service.settings import Settings


def build_services(settings: Settings, http: httpx2.AsyncClient) -> Services:
    """Wire what answers questions.

    Raises:
        ValueError: the Hub's endpoint is not a plain http(s) address.
    """
    snapshot = BundledSnapshot()
    client = HubClient(http, endpoint=endpoint_of(settings), cache=Cache(settings.cache_file))
    models = ModelSource(client, snapshot, offline=settings.hf_hub_offline)
    return Services(
        plan=partial(plan, recent=RecentWork()), models=models, snapshot=snapshot, gpus=gpu_catalog()
    )


def endpoint_of(settings: Settings) -> Endpoint:
    """Return the Hub that is asked.

    Raises:
        ValueError: its address is not a plain http(s) address.
    """
    return Endpoint(settings.hf_endpoint, settings.hub_token, settings.hub_storage_hosts)


def build_app(settings: Settings) -> FastAPI:
    """Build the application; its connections are closed when it shuts down."""
    http = hub_http()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with http:
            yield
        await services.models.close()

    services = build_services(settings, http)
    return create_app(services, cors_origins=settings.cors_origins, lifespan=lifespan)
