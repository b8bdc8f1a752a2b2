"""One database, SQLite or PostgreSQL. Its tables are migrated at the first use."""

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
"""How long a connection waits: in SQLite for another writer, in PostgreSQL for the server."""
_UNUSABLE: Final = frozenset({"OperationalError", "InterfaceError", "DatabaseError"})
"""Classes of errors of the connection or the file. Errors of a statement have other classes."""
MIGRATION_LOCK: Final = 0x64727973
"""Advisory lock in PostgreSQL: replicas that start at the same time migrate one after another."""


class InvalidDatabase(ValueError):
    """The URL is not that of a supported database."""


class StoreUnavailable(Exception):
    """The database cannot be connected to or opened."""

    def __init__(self) -> None:
        super().__init__("the database of probes and measurements cannot be used now")


class Database:
    """Connections to one database.

    ``url``: ``sqlite:///file.db`` or ``postgresql://user@host/name``.

    Raises:
        InvalidDatabase: the URL names another kind of database.
    """

    def __init__(self, url: str) -> None:
        parsed = make_url(url)
        driver = DRIVERS.get(parsed.get_backend_name())
        if driver is None:
            raise InvalidDatabase(f"{parsed.get_backend_name()} is not one of {', '.join(DRIVERS)}")
        self.url = parsed.set(drivername=driver)
        # SQLite: each transaction opens a new connection, since a connection is bound to one event loop.
        pool: dict[str, Any] = {"poolclass": NullPool} if self.embedded else {"pool_pre_ping": True}
        self._engine = create_async_engine(self.url, connect_args={"timeout": PATIENCE_SECONDS}, **pool)
        if self.embedded:
            event.listen(self._engine.sync_engine, "connect", _prepare_sqlite)
            event.listen(self._engine.sync_engine, "begin", _begin_sqlite)
        self._migrated = False
        self._migrating = asyncio.Lock()

    @property
    def embedded(self) -> bool:
        """Whether this is SQLite."""
        return self.url.get_backend_name() == "sqlite"

    @property
    def exists(self) -> bool:
        """Whether the database may have content: SQLite's file exists, or it is a server."""
        return not self.embedded or Path(str(self.url.database)).exists()

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[AsyncConnection]:
        """Open a transaction that may write. An exception rolls it back.

        Raises:
            StoreUnavailable: the database cannot be used.
        """
        with _translated_errors():
            await self._migrate()
            async with self._engine.begin() as connection:
                yield connection

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncConnection]:
        """Open a transaction that only reads; it does not wait for writers.

        Raises:
            StoreUnavailable: the database cannot be used.
        """
        with _translated_errors():
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


class _translated_errors:  # noqa: N801 - used like a function
    """Raises StoreUnavailable in place of connection errors."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, OSError) or (isinstance(error, DBAPIError) and _is_unreachable(error)):
            raise StoreUnavailable from error


def _is_unreachable(error: DBAPIError) -> bool:
    return error.connection_invalidated or type(error).__name__ in _UNUSABLE


def _upgrade(connection: Connection) -> None:
    # Imported here because the import is slow and most processes do not need it.
    from alembic import command  # noqa: PLC0415
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _prepare_sqlite(connection: sqlite3.Connection, _: object) -> None:
    # By default the driver begins a transaction only at the first write: two readers that then write fail.
    connection.isolation_level = None
    cursor = connection.cursor()
    try:
        cursor.execute("PRAGMA journal_mode=WAL")
    except sqlite3.OperationalError as error:
        # This pragma does not wait for locks. If the file is busy, another connection sets the same mode.
        if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
            raise
    for pragma in ("synchronous=FULL", "foreign_keys=ON"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    reads = connection.get_execution_options().get("reads_only", False)
    connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")
