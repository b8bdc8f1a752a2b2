"""Wires the parts of the service together; nothing else does."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

import httpx2
from fastapi import FastAPI

from service.advisor.plan import plan
from service.advisor.plan_cache import PlanCache
from service.advisor.plan_request import PlanRequest
from service.advisor.plan_types import Plan
from service.api.app import create_app
from service.api.work_lanes import LARGE_LIMIT
from service.application.job_events import JobEvents
from service.application.maintenance import run_maintenance
from service.application.services import Probes, Services
from service.calibration.measurement import SECONDS_PER_DAY
from service.gpus.catalog import gpu_catalog
from service.hub.cache import HubCache
from service.hub.endpoint import Endpoint
from service.hub.hub_client import HubClient
from service.hub.model_source import ModelSource
from service.hub.snapshot import BundledSnapshot
from service.hub.transfer import hub_http
from service.settings import Settings
from service.store.database import Database
from service.store.jobs import JobStore
from service.store.learned import LearnedCalibration
from service.store.measurements import MeasurementStore
from service.store.tokens import TokenStore
from service.worker.deploy.local_worker import LocalWorker
from service.worker.deploy.local_worker import local_worker as run_local_worker


def build_database(settings: Settings) -> Database:
    """Return the database; it is opened when it is first used.

    Raises:
        InvalidDatabase: the address is not one of a supported database.
    """
    return Database(settings.database_url)


def build_services(
    settings: Settings, http: httpx2.AsyncClient, database: Database | None = None
) -> Services:
    """Return the parts that use cases work with.

    Raises:
        ValueError: the address of the Hub or of the database is not valid.
    """
    database = database or build_database(settings)
    snapshot = BundledSnapshot()
    client = HubClient(http, endpoint=endpoint_of(settings), cache=HubCache(settings.cache_file))
    models = ModelSource(client, snapshot, offline=settings.hf_hub_offline)
    jobs = JobStore(
        database, lease_seconds=settings.probe_lease_seconds, queue_limit=settings.probe_queue_limit
    )
    measurements = MeasurementStore(database)
    tokens = TokenStore(database)
    learned = LearnedCalibration(measurements, tokens)
    probes = Probes(jobs, measurements, tokens, JobEvents(), learned)
    cache = PlanCache()

    def calibrated(request: PlanRequest) -> Plan:
        return plan(replace(request, calibration=learned.current), cache=cache)

    return Services(plan=calibrated, models=models, snapshot=snapshot, gpus=gpu_catalog(), probes=probes)


def endpoint_of(settings: Settings) -> Endpoint:
    """Return the address and token of the Hub.

    Raises:
        ValueError: its address is not a plain http(s) address.
    """
    return Endpoint(settings.hf_endpoint, settings.hub_token, settings.hub_storage_hosts)


def build_app(
    settings: Settings, *, local_worker: LocalWorker | None = None, open_reads: bool = False
) -> FastAPI:
    """Build the application; its connections are closed when it shuts down.

    ``local_worker``: how to run a worker on this host; ``None`` for none.
    ``open_reads``: whether callers on this host read without a token, where the settings do not say. Whoever
    opens the listening socket knows whether other hosts can reach it.
    """
    http = hub_http()
    database = build_database(settings)
    retention = settings.probe_retention_days * SECONDS_PER_DAY

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        services.snapshot.ids()  # read before the first request
        keeping = asyncio.create_task(run_maintenance(database, services.probes, retention))
        async with http, AsyncExitStack() as stack:
            if local_worker is not None:
                await stack.enter_async_context(run_local_worker(services.probes.tokens, local_worker))
            yield
        await services.models.close()
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
        await database.close()

    services = build_services(settings, http, database)
    return create_app(
        services,
        cors_origins=settings.cors_origins,
        lifespan=lifespan,
        queue_limit=LARGE_LIMIT if settings.plan_queue_limit is None else settings.plan_queue_limit,
        open_reads=open_reads if settings.open_reads is None else settings.open_reads,
    )
