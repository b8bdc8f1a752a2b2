"""Databases: which there are, how tables come to be, and what happens when there is none."""

import asyncio
import socket
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, inspect

from service.store.database import Database
from service.store.errors import InvalidDatabase, StoreUnavailable
from service.store.jobs import JobStore
from service.store.measurements import MeasurementStore
from service.store.tables import METADATA
from service.store.token import Scope
from service.store.tokens import TokenStore


async def test_migrations_make_the_tables_that_queries_see(database: Database) -> None:
    def differences(connection: Connection) -> list[object]:
        return list(compare_metadata(MigrationContext.configure(connection), METADATA))

    async with database.writing() as connection:
        assert await connection.run_sync(differences) == []
        names = await connection.run_sync(lambda each: inspect(each).get_table_names())
    assert set(names) == {*METADATA.tables, "alembic_version"}


async def test_replicas_that_start_together_migrate_once(database_url: str) -> None:
    replicas = [Database(database_url) for _ in range(4)]
    assert [job for store in map(JobStore, replicas) for job in await store.latest(None, 1)] == []
    await asyncio.gather(*(JobStore(each).sweep() for each in replicas))
    for each in replicas:
        await each.close()


async def test_a_replica_waits_for_another_that_writes_a_new_file(tmp_path: Path) -> None:
    """SQLite refuses a change of the journal's mode at once, however long it may wait for a transaction."""
    other = sqlite3.connect(tmp_path / "new.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    other.execute("CREATE TABLE another (id)")
    database = Database(f"sqlite:///{tmp_path}/new.db")
    waiting = asyncio.create_task(JobStore(database).sweep())
    await asyncio.sleep(0.3)
    assert not waiting.done()
    other.execute("COMMIT")
    other.close()
    await waiting
    await database.close()


async def test_looking_makes_no_file(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path}/sub/none.db")
    assert await MeasurementStore(database).by_digest() == {}
    assert await JobStore(database).latest(None, 1) == ()
    assert await MeasurementStore(database).state() == (0, 0.0)
    assert await TokenStore(database).find("dry_0_0") is None
    assert not (tmp_path / "sub").exists()


@pytest.fixture
async def unreachable(tmp_path: Path) -> AsyncIterator[list[Database]]:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        (tmp_path / "file").write_text("no folder")
        (tmp_path / "broken.db").write_bytes(b"no database" * 1000)
        databases = [
            Database(f"postgresql://test@127.0.0.1:{port}/none"),
            Database(f"sqlite:///{tmp_path}/file/x.db"),
            Database(f"sqlite:///{tmp_path}/broken.db"),
        ]
        yield databases
        for database in databases:
            await database.close()


async def test_a_database_out_of_reach_is_told(unreachable: list[Database]) -> None:
    for database in unreachable:
        with pytest.raises(StoreUnavailable):
            await JobStore(database).sweep()


def test_only_two_kinds_are_known() -> None:
    with pytest.raises(InvalidDatabase, match="mysql"):
        Database("mysql://localhost/x")


async def test_a_token_is_kept_as_a_digest_and_can_be_revoked(database: Database) -> None:
    tokens = TokenStore(database)
    text = await tokens.create("node-1", Scope.WORKER)
    token = await tokens.find(text)
    assert token is not None
    assert (token.name, token.scope) == ("node-1", Scope.WORKER)
    assert [each.token for each in await tokens.all()] == [token]
    async with database.reading() as connection:
        stored = str((await connection.exec_driver_sql("SELECT * FROM tokens")).all())
    assert text.split("_", 2)[2] not in stored
    for forged in (text[:-1], text + "x", f"dry_{token.id}_", "", "dry__", text.replace("dry", "wet")):
        assert await tokens.find(forged) is None
    assert await tokens.revoke(token.id)
    assert not await tokens.revoke(token.id)
    assert await tokens.find(text) is None
