"""What a real PostgreSQL does to its clients: refuse them, restart, freeze."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import pytest

from service.store.database import Database, DatabaseOptions
from service.store.errors import StoreUnavailable
from service.store.faults import is_unusable
from service.store.jobs import JobStore
from service.store.tokens import TokenStore
from tests.store.postgresql import binaries, new_database, running_postgresql

QUICK = DatabaseOptions(timeout_seconds=1)


@pytest.fixture(scope="module")
def own_server() -> Iterator[str]:
    """Return the address of a server that a test may stop."""
    programs = binaries()
    if programs is None:
        pytest.skip("PostgreSQL is not installed")
    with running_postgresql(programs) as address:
        yield address


@asynccontextmanager
async def opened(url: str, options: DatabaseOptions = QUICK) -> AsyncIterator[Database]:
    database = Database(url, options)
    yield database
    await database.close()


async def run(address: str, *statements: str) -> None:
    connection = await asyncpg.connect(f"{address}/postgres")
    for statement in statements:
        await connection.execute(statement)
    await connection.close()


async def refused(database: Database) -> str:
    with pytest.raises(StoreUnavailable) as caught:
        await TokenStore(database).all()
    assert caught.value.retry_after > 0
    assert database.condition == "unavailable"
    return caught.value.reason


async def test_refusals_of_the_server_have_their_reason(own_server: str) -> None:
    url = new_database_of(own_server)
    host = own_server.removeprefix("postgresql://test@")
    async with opened(f"{own_server}/missing") as database:
        assert '"missing" does not exist (SQLSTATE 3D000)' in await refused(database)
    async with opened(url.replace("test@", "stranger@")) as database:
        assert '"stranger" does not exist (SQLSTATE 28000)' in await refused(database)
    await run(own_server, "CREATE ROLE weak LOGIN")
    async with opened(f"postgresql://weak@{host}/{url.rpartition('/')[2]}") as database:
        assert "permission denied for schema public (SQLSTATE 42501)" in await refused(database)
    await run(own_server, "DROP ROLE weak")
    await run(own_server, f"ALTER DATABASE {url.rpartition('/')[2]} ALLOW_CONNECTIONS false")
    async with opened(url) as database:
        assert "not currently accepting connections (SQLSTATE 55000)" in await refused(database)


async def test_too_many_connections(own_server: str) -> None:
    url = new_database_of(own_server)
    name = url.rpartition("/")[2]
    async with opened(url) as database:
        await TokenStore(database).all()
    await run(
        own_server, "CREATE ROLE narrow LOGIN CONNECTION LIMIT 2", f"ALTER DATABASE {name} OWNER TO narrow"
    )
    await run(own_server, "GRANT pg_read_all_data TO narrow")
    async with opened(url.replace("test@", "narrow@")) as database:
        results = await asyncio.gather(*(held(database, 0.3) for _ in range(8)), return_exceptions=True)
    faults = [each for each in results if each is not None]
    assert len(faults) == 6
    for fault in faults:
        assert isinstance(fault, StoreUnavailable)
        assert 'too many connections for role "narrow" (SQLSTATE 53300)' in fault.reason


async def test_the_pool_has_the_size_of_its_setting(own_server: str) -> None:
    url = new_database_of(own_server)
    async with opened(url, DatabaseOptions(pool_size=2, timeout_seconds=0.5)) as database:
        await TokenStore(database).all()
        waiting = [asyncio.create_task(held(database, 1.5)) for _ in range(3)]
        await asyncio.sleep(0.3)
        assert (database.pool_in_use, database.pool_size) == (2, 2)
        results = await asyncio.gather(*waiting, return_exceptions=True)
        faults = [each for each in results if isinstance(each, StoreUnavailable)]
        assert any("DRYSERVE_DATABASE_POOL_SIZE" in each.reason for each in faults)
        await TokenStore(database).all()


async def test_a_restart_is_survived(own_server: str) -> None:
    """Connections end with 57P01, new ones are refused with 57P03, or the socket is closed."""
    url = new_database_of(own_server)
    stop = asyncio.Event()
    answers: list[str] = []

    async def asking(database: Database) -> None:
        while not stop.is_set():
            try:
                await JobStore(database).sweep()
                answers.append("ok")
            except StoreUnavailable as error:
                answers.append(error.reason)
            await asyncio.sleep(0.01)

    async with opened(url) as database:
        await JobStore(database).sweep()
        asking_tasks = [asyncio.create_task(asking(database)) for _ in range(6)]
        await asyncio.sleep(0.3)
        await run(
            own_server,
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'test'"
            " AND pid <> pg_backend_pid()",
        )
        await asyncio.sleep(0.5)
        stop.set()
        await asyncio.gather(*asking_tasks)
        assert await JobStore(database).sweep() == 0
        assert database.condition == "current"
    assert answers.count("ok") > len(answers) / 2


async def test_a_frozen_server_costs_no_more_than_the_time_limit(own_server: str) -> None:
    """As with a disk that hangs or packets that are lost: the sockets stay open, and nobody answers."""
    url = new_database_of(own_server)
    async with opened(url) as database:
        tokens = TokenStore(database)
        await asyncio.gather(*(held(database, 0.1) for _ in range(5)))
        processes = await processes_of(own_server)
        for each in processes:
            os.kill(each, signal.SIGSTOP)
        try:
            started = time.monotonic()
            results = await asyncio.gather(*(tokens.all() for _ in range(20)), return_exceptions=True)
            took = time.monotonic() - started
        finally:
            for each in processes:
                os.kill(each, signal.SIGCONT)
        assert all(isinstance(each, StoreUnavailable) for each in results)
        assert took < 40 * QUICK.timeout_seconds
        await asyncio.sleep(0.1)
        assert await tokens.all() == ()


async def test_the_forms_that_providers_print(own_server: str) -> None:
    url = new_database_of(own_server).replace("postgresql:", "postgres:")
    accepted = (
        "",
        "?sslmode=disable",
        "?sslmode=prefer&application_name=dry&channel_binding=prefer",
        "?sslmode=allow&connect_timeout=10&target_session_attrs=read-write",
    )
    for query in accepted:
        async with opened(f"{url}{query}") as database:
            assert await TokenStore(database).all() == ()
    async with opened(f"{url}?sslmode=require") as database:
        assert "SSL" in await refused(database)
    async with opened(f"{url}?sslmode=bogus") as database:
        assert "sslmode" in await refused(database)


def test_faults_of_a_statement_stay_faults() -> None:
    for error in (ValueError("x"), asyncpg.SyntaxOrAccessError("x"), asyncpg.UniqueViolationError("x")):
        assert not is_unusable(error)


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may read every folder")
async def test_a_folder_that_may_not_be_read(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o000)
    await _unreadable(closed)
    closed.chmod(0o700)


async def test_a_folder_that_may_not_be_read_by_its_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def denied(path: Path, **_: object) -> os.stat_result:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "stat", denied)
    await _unreadable(tmp_path)


async def _unreadable(folder: Path) -> None:
    async with opened(f"sqlite:///{folder}/x.db") as database:
        uses: tuple[Callable[[], Awaitable[object]], ...] = (
            lambda: TokenStore(database).revoked(),
            lambda: JobStore(database).latest(None, 1),
        )
        for use in uses:
            with pytest.raises(StoreUnavailable) as caught:
                await use()
            assert "Permission denied" in caught.value.reason


async def test_the_file_is_private(tmp_path: Path) -> None:
    async with opened(f"sqlite:///{tmp_path}/x.db") as database:
        await TokenStore(database).all()
        assert {each.stat().st_mode & 0o777 for each in files_of(tmp_path)} == {0o600}


def files_of(folder: Path) -> list[Path]:
    return list(folder.iterdir())


def new_database_of(server: str) -> str:
    """Make an empty database, from a test that has a running event loop."""
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(new_database, server).result()


async def held(database: Database, seconds: float) -> None:
    """Hold a transaction open on the server."""
    async with database.reading() as connection:
        await connection.exec_driver_sql(f"SELECT pg_sleep({seconds})")


async def processes_of(server: str) -> list[int]:
    """Return the ids of the processes of a server, its own connections' included."""
    connection = await asyncpg.connect(f"{server}/postgres")
    first = int((await connection.fetchval("SELECT pg_read_file('postmaster.pid')")).splitlines()[0])
    await connection.close()
    await asyncio.sleep(0.2)
    return [first, *_children_of(first)]


def _children_of(process: int) -> list[int]:
    found = Path("/proc").glob("[0-9]*/stat")
    return [int(path.parent.name) for path in found if _parent(path) == process]


def _parent(stat: Path) -> int:
    try:
        return int(stat.read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0
