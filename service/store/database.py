"""One database, SQLite or PostgreSQL, whose tables are brought up to date when it is first used."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, event, make_url
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine
from sqlalchemy.pool import NullPool

MIGRATIONS: Final = Path(__file__).parent / "migrations"
DRIVERS: Final = {"sqlite": "sqlite+aiosqlite", "postgresql": "postgresql+asyncpg"}
PATIENCE_SECONDS: Final = 30
"""How long a writer of SQLite waits for another one."""
_UNUSABLE: Final = frozenset({"OperationalError", "InterfaceError", "DatabaseError"})
"""Errors of the connection or the file; those of a statement have classes of their own."""
MIGRATION_LOCK: Final = 0x64727973
"""PostgreSQL's advisory lock, so that replicas that start together migrate one after another."""


class InvalidDatabase(ValueError):
    """The address is not one of a database that is supported."""


class StoreUnavailable(Exception):
    """The database cannot be reached or opened."""

    def __init__(self) -> None:
        super().__init__("the database of probes and measurements cannot be used now")


class Database:
    """Connections to one database.

    ``url``: ``sqlite:///file.db`` or ``postgresql://user@host/name``.
    """

    def __init__(self, url: str) -> None:
        parsed = make_url(url)
        driver = DRIVERS.get(parsed.get_backend_name())
        if driver is None:
            raise InvalidDatabase(f"{parsed.get_backend_name()} is none of {', '.join(DRIVERS)}")
        self.url = parsed.set(drivername=driver)
        # A file is opened anew each time, so that no connection belongs to one event loop.
        pool: dict[str, Any] = {"poolclass": NullPool} if self.embedded else {"pool_pre_ping": True}
        self._engine = create_async_engine(self.url, connect_args={"timeout": PATIENCE_SECONDS}, **pool)
        if self.embedded:
            event.listen(self._engine.sync_engine, "connect", _prepare_sqlite)
            event.listen(self._engine.sync_engine, "begin", _begin_sqlite)
        self._migrated = False
        self._migrating = asyncio.Lock()

    @property
    def embedded(self) -> bool:
        """Whether it is SQLite."""
        return self.url.get_backend_name() == "sqlite"

    @property
    def exists(self) -> bool:
        """Whether there may be something in it: a file of SQLite that is there, or any server."""
        return not self.embedded or Path(str(self.url.database)).exists()

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[AsyncConnection]:
        """Open a transaction that may write; it is undone when an exception leaves it.

        Raises:
            StoreUnavailable: the database cannot be used.
        """
        with _distinct_errors():
            await self._migrate()
            async with self._engine.begin() as connection:
                yield connection

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncConnection]:
        """Open a transaction that only reads, and waits for no writer.

        Raises:
            StoreUnavailable: the database cannot be used.
        """
        with _distinct_errors():
            await self._migrate()
            async with self._engine.connect() as connection:
                yield await connection.execution_options(reads_only=True)

    async def close(self) -> None:
        """Close all connections."""
        await self._engine.dispose()

    async def _migrate(self) -> None:
        if self._migrated:
            return
        async with self._migrating:
            if self.embedded:
                Path(str(self.url.database)).parent.mkdir(parents=True, exist_ok=True)
            async with self._engine.begin() as connection:
                if not self.embedded:
                    await connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({MIGRATION_LOCK})")
                await connection.run_sync(_upgrade)
            self._migrated = True


class _distinct_errors:  # noqa: N801 - reads as the statement it is
    """Turns a database that is out of reach into our own fault."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, OSError) or (isinstance(error, DBAPIError) and _out_of_reach(error)):
            raise StoreUnavailable from error


def _out_of_reach(error: DBAPIError) -> bool:
    return error.connection_invalidated or type(error).__name__ in _UNUSABLE


def _upgrade(connection: Connection) -> None:
    # Imported here since most processes never come here, and it takes a while.
    from alembic import command  # noqa: PLC0415
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _prepare_sqlite(connection: sqlite3.Connection, _: object) -> None:
    # Without this the driver begins transactions itself, and late: two readers that want to write then fail.
    connection.isolation_level = None
    cursor = connection.cursor()
    try:
        cursor.execute("PRAGMA journal_mode=WAL")
    except sqlite3.OperationalError as error:
        # Setting it waits for nobody; the file keeps its mode, and another is at work on it.
        if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
            raise
    for pragma in ("synchronous=FULL", "foreign_keys=ON"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    reads = connection.get_execution_options().get("reads_only", False)
    connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")
