"""What processes of one service tell each other: jobs that changed, and workers that were seen."""

import asyncio
from collections.abc import Callable

import httpx2
import pytest

from service.application.announcements import CHANGED, Announcements
from service.application.services import Services
from service.bootstrap import build_services
from service.probes.job_spec import Inventory, JobSpec, ProbeKind, ProbeLimits, Target
from service.probes.offer import Offer
from service.settings import Settings
from service.store.database import Database
from service.store.job_notifications import LONGEST, JobNotifications
from tests.store.postgresql import new_database

PATIENCE = 30
OFFER = Offer("pool/node-1", (ProbeKind.INVENTORY,), ("NVIDIA L4",), gpus=1)
SPEC = JobSpec(Inventory(), Target(gpus=0), ProbeLimits())


@pytest.fixture
def url(postgresql: str) -> str:
    return new_database(postgresql)


def process(url: str) -> tuple[Services, Announcements]:
    nobody = httpx2.AsyncClient(transport=httpx2.MockTransport(lambda _: httpx2.Response(500)))
    services = build_services(Settings(HF_HUB_OFFLINE=True), nobody, Database(url))
    return services, Announcements(services.probes)


async def woken(services: Services, act: Callable[[], None]) -> None:
    """Check that an act ends a wait for events."""
    waiting = asyncio.create_task(services.probes.job_events.wait(PATIENCE))
    await asyncio.sleep(0)
    act()
    await asyncio.wait_for(waiting, PATIENCE / 2)


async def test_a_change_and_a_worker_reach_the_other_process_and_do_not_return() -> None:
    (one, ones), (other, others) = process("sqlite:///unused.db"), process("sqlite:///unused.db")
    sent = list[str]()
    ones.carriers.append(others.receive)
    others.carriers.append(sent.append)
    await woken(other, one.probes.job_events.notify)
    one.probes.workers.asks(OFFER)
    assert [each.offer for each in other.probes.workers.all()] == [OFFER]
    assert other.probes.workers.able(SPEC)
    one.probes.workers.has(OFFER.worker, "a" * 32)
    assert other.probes.workers.all()[0].job_id == "a" * 32
    assert sent == []


def test_what_is_not_understood_changes_nothing() -> None:
    services, announcements = process("sqlite:///unused.db")
    for text in ("", "{}", "later: something", '{"offer": 1}'):
        announcements.receive(text)
    assert services.probes.workers.all() == ()


async def test_postgresql_carries_announcements_between_replicas(url: str) -> None:
    received: list[asyncio.Queue[str]] = [asyncio.Queue(), asyncio.Queue()]
    databases = [Database(url), Database(url)]
    replicas = [
        JobNotifications(database, queue.put_nowait)
        for database, queue in zip(databases, received, strict=True)
    ]
    running = [asyncio.create_task(each.run()) for each in replicas]
    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(*(each.listening.wait() for each in replicas))
        replicas[0].announce("x" * (LONGEST + 1))
        replicas[0].announce(CHANGED)
        assert await received[1].get() == CHANGED
        replicas[1].announce("worker")
        # Not its own.
        assert await received[0].get() == "worker"
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    for database in databases:
        await database.close()


async def test_a_replica_listens_again_after_its_connection_was_cut(url: str) -> None:
    import asyncpg  # noqa: PLC0415 - only where PostgreSQL is there

    received: asyncio.Queue[str] = asyncio.Queue()
    database = Database(url)
    notifications = JobNotifications(database, received.put_nowait, pause_seconds=0.05)
    running = asyncio.create_task(notifications.run())
    operator = await asyncpg.connect(url)
    async with asyncio.timeout(PATIENCE):
        await notifications.listening.wait()
        await operator.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE pid <> pg_backend_pid() AND datname = current_database()"
        )
        while notifications.listening.is_set():  # noqa: ASYNC110 - it tells of no event
            await asyncio.sleep(0.01)
        await notifications.listening.wait()
        await operator.execute("SELECT pg_notify('dryserve', 'again')")
        assert await received.get() == "again"
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await operator.close()
    await database.close()
