"""Wires the HTTP service together; `plan_services` and `probe_services` wire the parts of a command."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from service.api.app import create_app
from service.api.app_options import AppOptions
from service.api.tracing import configured_tracing
from service.api.work_lanes import LARGE_LIMIT, WorkLimits
from service.application.announcements import Announcements
from service.application.probes.maintenance import run_maintenance
from service.application.services import Services, with_probes
from service.calibration.measurement import SECONDS_PER_DAY
from service.plan_services import build_plan_services
from service.probe_services import build_database, build_probes
from service.store.errors import StoreUnavailable
from service.store.token_file import TokenFile

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    import httpx2
    from fastapi import FastAPI

    from service.api.metrics import Metrics
    from service.settings import Settings
    from service.store.database import Database
    from service.worker.deploy.local_worker import LocalWorker


def build_services(
    settings: Settings,
    http: httpx2.AsyncClient | Callable[[], httpx2.AsyncClient],
    database: Database | None = None,
) -> Services:
    """Return the parts that use cases work with.

    ``http``: the client for the Hub, or what returns it at the first download.

    Raises:
        ValueError: the address of the Hub or of the database is not valid, or the file of tokens.
        OSError: the file of tokens cannot be read.
    """
    probes = build_probes(settings, database or build_database(settings))
    if settings.tokens_file is not None:
        probes = replace(probes, declared_tokens=TokenFile(settings.tokens_file))
    return with_probes(build_plan_services(settings, http, lambda: probes.learned.current), probes)


def build_app(
    settings: Settings, *, local_worker: LocalWorker | None = None, open_reads: bool = False
) -> FastAPI:
    """Build the application; its connections are closed when it shuts down.

    ``local_worker``: how to run a worker on this host; ``None`` for none.
    ``open_reads``: whether callers on this host read without a token, and all callers see what the service's
    own token of the Hub opens, where the settings do not say. Whoever opens the listening socket knows
    whether other hosts can reach it.
    """
    if not (open_reads if settings.share_hub_token is None else settings.share_hub_token):
        settings = settings.without_hub_token
    http: list[httpx2.AsyncClient] = []
    database = build_database(settings)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        services.snapshot.ids()  # read before the first request
        tasks = _background_tasks(database, services, announcements, settings)
        async with AsyncExitStack() as stack:
            if local_worker is not None:
                from service.worker.deploy.local_worker import (  # noqa: PLC0415 - most services run none
                    local_worker as run_local_worker,
                )

                await stack.enter_async_context(run_local_worker(services.probes.tokens, local_worker))
            yield
        await services.models.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await database.close()
        for client in http:
            await client.aclose()
        await asyncio.to_thread(tracing.close)

    def client() -> httpx2.AsyncClient:
        from service.hub.transport.transfer import hub_http  # noqa: PLC0415 - a service may never ask the Hub

        made = hub_http()
        _count_hub_traffic(made, app.state.metrics)
        http.append(made)
        return made

    services = build_services(settings, client, database)
    with suppress(StoreUnavailable):  # which whoever uses it says
        services.probes.stores.prepare()
    announcements = Announcements(services.probes)
    tracing = configured_tracing(settings.otel_endpoint)
    options = AppOptions(
        cors_origins=settings.cors_origins,
        work=WorkLimits(settings.plan_queue_limit or LARGE_LIMIT, settings.plan_seconds),
        tracing=tracing,
        root_path=settings.root_path,
        has_admin=settings.admin_port is not None,
        open_reads=open_reads if settings.open_reads is None else settings.open_reads,
    )
    app = create_app(services, options, lifespan=lifespan)
    app.state.announcements = announcements
    return app


def _background_tasks(
    database: Database, services: Services, announcements: Announcements, settings: Settings
) -> list[asyncio.Task[None]]:
    """Start what runs beside the requests: upkeep of the database, and other processes' announcements."""
    retention = settings.probe_retention_days * SECONDS_PER_DAY
    tasks = [asyncio.create_task(run_maintenance(database, services.probes, retention))]
    if not database.embedded:
        from service.store.job_notifications import JobNotifications  # noqa: PLC0415 - its library is slow

        notifications = JobNotifications(database, announcements.receive)
        announcements.carriers.append(notifications.announce)
        tasks.append(asyncio.create_task(notifications.run()))
    return tasks


def _count_hub_traffic(http: httpx2.AsyncClient, metrics: Metrics) -> None:
    async def requested(_: httpx2.Request) -> None:
        metrics.count_hub_request()

    async def responded(response: httpx2.Response) -> None:
        metrics.count_hub_response(response.status_code)

    http.event_hooks = {"request": [requested], "response": [responded]}
