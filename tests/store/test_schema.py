"""Tables of another revision than the program's: older, newer, and too new."""

import time
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import httpx2
import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import column, table, text, update
from starlette.testclient import TestClient

from service.api.app import create_app
from service.bootstrap import build_services
from service.probes.job_spec import Inventory, JobSpec, ProbeKind
from service.probes.job_state import State
from service.probes.limits import MAX_ATTEMPTS, QueueLimits
from service.probes.offer import Offer
from service.settings import Settings
from service.store.database import Database, DatabaseOptions
from service.store.errors import SchemaMismatch, StoreUnavailable
from service.store.jobs import JobStore
from service.store.schema import HEAD, MIGRATIONS, Fitness, Schema
from service.store.tables import SCHEMA_COMPATIBILITY
from service.store.tokens import TokenStore
from tests.store.conftest import SetClock
from tests.store.postgresql import new_database

NEXT = f"{int(HEAD) + 1:04}"
Upgrade: TypeAlias = Callable[[str], Awaitable[None]]
VERSION = table("alembic_version", column("version_num"))
OFFER = Offer("node", (ProbeKind.INVENTORY,), gpus=1)


@pytest.fixture
def postgresql_url(postgresql: str) -> str:
    return new_database(postgresql)


@pytest.fixture
def upgraded_by_next(database: Database) -> Upgrade:
    """Return what gives the tables a revision that this program does not know, as the next version would."""

    async def upgrade(oldest_program: str) -> None:
        other = Database(database.url.render_as_string(hide_password=False))
        async with other.writing() as connection:
            await connection.execute(text("ALTER TABLE jobs ADD COLUMN of_the_next_version TEXT"))
            await connection.execute(update(VERSION).values(version_num=NEXT))
            await connection.execute(update(SCHEMA_COMPATIBILITY).values(oldest_program=oldest_program))
        await other.close()

    return upgrade


def test_the_revision_is_that_of_the_newest_migration() -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.set_main_option("path_separator", "os")
    assert ScriptDirectory.from_config(config).get_current_head() == HEAD


@pytest.mark.parametrize(
    ("schema", "fitness"),
    [
        (Schema(None), Fitness.OLDER),
        (Schema("0000"), Fitness.OLDER),
        (Schema(HEAD), Fitness.CURRENT),
        (Schema(NEXT, "0001"), Fitness.NEWER),
        (Schema(NEXT, HEAD), Fitness.NEWER),
        (Schema(NEXT, NEXT), Fitness.TOO_NEW),
    ],
)
def test_how_tables_suit_a_program(schema: Schema, fitness: Fitness) -> None:
    assert schema.fitness is fitness


async def test_an_older_program_works_beside_tables_that_were_expanded(
    database: Database, jobs: JobStore, upgraded_by_next: Upgrade
) -> None:
    running = await _added(jobs)
    await upgraded_by_next("0001")
    await database.recheck()
    assert database.condition == "newer"
    restarted = Database(database.url.render_as_string(hide_password=False))
    assert (await JobStore(restarted).get(running)).state is State.QUEUED
    assert await _added(JobStore(restarted))
    assert restarted.condition == "newer"
    assert (await restarted.upgraded()).revision == NEXT
    await restarted.close()


async def test_an_older_program_refuses_tables_that_were_contracted(
    database: Database, jobs: JobStore, upgraded_by_next: Upgrade
) -> None:
    await _added(jobs)
    await upgraded_by_next(NEXT)
    with pytest.raises(SchemaMismatch, match=f"revision {NEXT}"):
        await database.recheck()
    restarted = Database(database.url.render_as_string(hide_password=False))
    for _ in range(2):
        with pytest.raises(SchemaMismatch):
            await JobStore(restarted).sweep()
    assert restarted.condition == "too_new"
    await restarted.close()


async def test_readiness_names_the_tables(database: Database, upgraded_by_next: Upgrade) -> None:
    nobody = httpx2.AsyncClient(transport=httpx2.MockTransport(lambda _: httpx2.Response(500)))
    client = TestClient(create_app(build_services(Settings(HF_HUB_OFFLINE=True), nobody, database)))
    assert client.get("/readyz").json()["database"] == "unused"
    await TokenStore(database).all()
    assert client.get("/readyz").json()["database"] == "current"
    await upgraded_by_next("0001")
    await database.recheck()
    assert client.get("/readyz").json()["database"] == "newer"
    await upgraded_contracted(database)
    with pytest.raises(SchemaMismatch):
        await database.recheck()
    answer = client.get("/readyz")
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
    assert answer.json()["type"].endswith("/schema-mismatch")
    assert client.get("/livez").status_code == 200


async def upgraded_contracted(database: Database) -> None:
    async with database.writing() as connection:
        await connection.execute(update(SCHEMA_COMPATIBILITY).values(oldest_program=NEXT))


async def test_without_its_permission_nothing_is_upgraded(database_url: str) -> None:
    database = Database(database_url, DatabaseOptions(upgrades=False))
    with pytest.raises(StoreUnavailable, match="dryserve database upgrade"):
        await TokenStore(database).all()
    assert (await database.inspected()).revision is None
    await database.upgraded()
    assert await TokenStore(database).all() == ()
    await database.close()


async def test_leases_end_by_the_clock_of_the_database(
    postgresql_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A replica whose clock is an hour ahead takes no job from a living worker."""
    database = Database(postgresql_url)
    jobs = JobStore(database, limits=QueueLimits(lease_seconds=30))
    await _added(jobs)
    job = await jobs.lease(OFFER)
    assert job is not None
    now = time.time
    monkeypatch.setattr("service.store.jobs.time.time", lambda: now() + 3600)
    assert await jobs.sweep() == 0
    assert (await jobs.get(job.id)).state is State.LEASED
    monkeypatch.undo()
    assert abs(job.created_at - now()) < 60
    await database.close()


@pytest.mark.parametrize("most", [1, MAX_ATTEMPTS, 4])
async def test_a_job_that_is_given_up_says_why(database: Database, clock: SetClock, most: int) -> None:
    jobs = JobStore(database, clock, limits=QueueLimits(attempts=most, lease_seconds=10))
    lost: list[int] = []
    jobs.counts.on_lease_lost.append(lambda: lost.append(1))
    name = await _added(jobs)
    for attempt in range(1, most + 1):
        leased = await jobs.lease(OFFER)
        assert leased is not None
        assert leased.attempts == attempt
        clock.now += 11
        assert await jobs.sweep() == 1
        after = await jobs.get(name)
        assert after.state is (State.EXPIRED if attempt == most else State.QUEUED)
        assert f"Worker node sent no heartbeat before lease {attempt} ended" in (after.reason or "")
    assert (after.reason or "").endswith(f"it is given up after {most}.")
    assert len(lost) == most


async def test_a_job_that_nobody_takes_says_so(database: Database, clock: SetClock) -> None:
    jobs = JobStore(database, clock)
    name = await _added(jobs)
    clock.now += 3601
    await jobs.sweep()
    after = await jobs.get(name)
    assert (after.state, after.reason) == (State.EXPIRED, "No worker took it within 3,600 seconds.")


async def _added(jobs: JobStore) -> str:
    job, _ = await jobs.add(JobSpec(Inventory()), None, "digest")
    return job.id
