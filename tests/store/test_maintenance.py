"""What the service does from time to time, on either kind of database."""

import asyncio
from collections.abc import Awaitable, Callable

import httpx2
import pytest

from service.application.probes import maintenance as beside
from service.application.probes.maintenance import run_maintenance
from service.bootstrap import build_services
from service.probes.job_spec import Inventory, JobSpec
from service.settings import Settings
from service.store.database import Database
from service.store.errors import JobNotFound, StoreUnavailable

SPEC = JobSpec(Inventory())


async def _until(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(20):
        while not await holds():  # noqa: ASYNC110 - a database says so
            await asyncio.sleep(0.02)


async def test_old_jobs_go_while_the_service_runs(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(beside, "INTERVAL_SECONDS", 0.02)
    probes = build_services(Settings(HF_HUB_OFFLINE=True), httpx2.AsyncClient(), database).probes
    ended, _ = await probes.jobs.add(SPEC, None, "d")
    await probes.jobs.cancel(ended.id)
    waiting, _ = await probes.jobs.add(SPEC, None, "d")

    async def gone() -> bool:
        try:
            return (await probes.jobs.get(ended.id)) is None
        except JobNotFound:
            return True

    for retention, forgets in ((0, False), (3600, False), (1e-6, True)):
        keeping = asyncio.create_task(run_maintenance(database, probes, retention))
        if forgets:
            await _until(gone)
        else:
            await asyncio.sleep(0.2)
            assert not await gone()
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
    assert (await probes.jobs.get(waiting.id)) == waiting


@pytest.mark.parametrize("error", [StoreUnavailable(), RuntimeError("a fault of ours")])
async def test_one_bad_round_is_not_the_last(
    database: Database, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setattr(beside, "INTERVAL_SECONDS", 0.02)
    probes = build_services(Settings(HF_HUB_OFFLINE=True), httpx2.AsyncClient(), database).probes
    await probes.jobs.add(SPEC, None, "d")
    rounds = []

    async def sweep() -> int:
        rounds.append(1)
        raise error

    monkeypatch.setattr(probes.jobs, "sweep", sweep)
    keeping = asyncio.create_task(run_maintenance(database, probes, 0))

    async def twice() -> bool:
        return len(rounds) > 1

    await _until(twice)
    assert not keeping.done()
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)


async def test_a_folder_that_cannot_be_read_now_may_be_read_later(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a volume does whose rights are set after the start."""
    monkeypatch.setattr(beside, "INTERVAL_SECONDS", 0.02)
    probes = build_services(Settings(HF_HUB_OFFLINE=True), httpx2.AsyncClient(), database).probes
    asked: list[int] = []

    def exists(_: Database) -> bool:
        asked.append(1)
        raise PermissionError

    monkeypatch.setattr(Database, "exists", property(exists))
    keeping = asyncio.create_task(run_maintenance(database, probes, 0))

    async def twice() -> bool:
        return len(asked) > 1

    await _until(twice)
    assert not keeping.done()
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
