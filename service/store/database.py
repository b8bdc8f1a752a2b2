"""One database, SQLite or PostgreSQL. Its tables are migrated at the first use."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, event
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool

from service.store.database_url import check_url, driver_address
from service.store.errors import SchemaMismatch, StoreUnavailable
from service.store.faults import is_unusable, reason_of
from service.store.limits import POOL_SIZE, TIMEOUT_SECONDS
from service.store.schema import Fitness, Schema, read_schema, upgrade_schema

SQLITE_PATIENCE_SECONDS: Final = 30
"""How long a connection to SQLite waits for another writer."""
STATEMENTS: Final = 2
"""All statements of one use may take as long as so many may take alone."""
PRIVATE: Final = 0o600
"""Rights of the file: it holds digests of tokens."""


@dataclass(frozen=True, slots=True)
class DatabaseOptions:
    """How a database is used."""

    pool_size: int = POOL_SIZE
    """Most connections of this process to PostgreSQL. SQLite opens one for each transaction."""
    timeout_seconds: float = TIMEOUT_SECONDS
    """How long PostgreSQL may take to connect, or to answer one statement."""
    upgrades: bool = True
    """Whether older tables are upgraded at the first use."""


class Database:
    """Connections to one database.

    ``url``: ``sqlite:///file.db`` or ``postgresql://user@host/name``.

    Raises:
        InvalidDatabase: the URL names another kind of database.
    """

    def __init__(self, url: str, options: DatabaseOptions | None = None) -> None:
        self.url = check_url(url)
        self._options = options or DatabaseOptions()
        self._engine = self._sqlite() if self.embedded else self._postgresql()
        self._schema: Schema | None = None
        self._fault: StoreUnavailable | None = None
        self._upgrading = asyncio.Lock()

    @property
    def embedded(self) -> bool:
        """Whether this is SQLite."""
        return self.url.get_backend_name() == "sqlite"

    @property
    def exists(self) -> bool:
        """Whether the database may have content: SQLite's file exists, or it is a server.

        Raises:
            StoreUnavailable: the folder of the file may not be read.
        """
        if not self.embedded:
            return True
        try:
            self._file.stat()
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise self._failed(error) from error
        return True

    @property
    def condition(self) -> str:
        """What the last use found: `unused`, `unavailable`, or how the tables suit this program."""
        if isinstance(self._fault, SchemaMismatch) and self._schema is not None:
            return self._schema.fitness.value
        if self._fault is not None:
            return "unavailable"
        return "unused" if self._schema is None else self._schema.fitness.value

    @property
    def fault(self) -> StoreUnavailable | None:
        """Why the last use failed; None if it succeeded, or if there was none."""
        return self._fault

    @property
    def pool_in_use(self) -> int:
        """Connections of the pool that are in use; 0 for SQLite, which has no pool."""
        checked_out: Callable[[], int] | None = getattr(self._engine.pool, "checkedout", None)
        return 0 if checked_out is None else checked_out()

    @property
    def pool_size(self) -> int:
        """Most connections of the pool; 0 for SQLite, which has no pool."""
        return 0 if self.embedded else self._options.pool_size

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[AsyncConnection]:
        """Open a transaction that may write. An exception rolls it back.

        Raises:
            StoreUnavailable: the database cannot be used.
        """
        async with self._used(), self._engine.begin() as connection:
            yield connection

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncConnection]:
        """Open a transaction that only reads; it does not wait for writers.

        Raises:
            StoreUnavailable: the database cannot be used.
        """
        async with self._used(), self._engine.connect() as connection:
            yield await connection.execution_options(reads_only=True)

    async def inspected(self) -> Schema:
        """Return the revision of the tables, read anew; nothing is changed.

        Raises:
            StoreUnavailable: the database cannot be used.
        """
        if not self.exists:
            return Schema(None)
        async with self._translated():
            return await self._read_schema()

    async def recheck(self) -> None:
        """Read the revision of the tables anew, since another program may have upgraded them.

        Raises:
            StoreUnavailable: the database cannot be used, or its tables do not suit this program.
        """
        async with self._translated():
            await self._prepare()

    async def upgraded(self) -> Schema:
        """Upgrade the tables where they are older, and return their revision.

        Raises:
            StoreUnavailable: the database cannot be used.
        """
        async with self._translated():
            return await self._upgrade()

    async def dedicated_connection(self) -> Any:  # noqa: ANN401 - the driver has no types
        """Return a new connection of the PostgreSQL driver, which the caller must close."""
        return await self._driver_connection(self._options.timeout_seconds)

    async def close(self) -> None:
        """Close all connections."""
        await self._engine.dispose()

    @property
    def _file(self) -> Path:
        return Path(str(self.url.database))

    @asynccontextmanager
    async def _used(self) -> AsyncIterator[None]:
        """Prepare the tables at the first use. Each statement has a time limit, and so have all together."""
        async with self._translated():
            if self._schema is None or self._fault is not None:
                await self._prepare()
            async with self._deadline():
                yield

    def _deadline(self) -> asyncio.Timeout:
        """Return the limit of several statements together; the driver limits each alone."""
        return asyncio.timeout(None if self.embedded else STATEMENTS * self._options.timeout_seconds)

    @asynccontextmanager
    async def _translated(self) -> AsyncIterator[None]:
        """Raise StoreUnavailable in place of errors of the connection, and remember how the use ended."""
        try:
            yield
        except SchemaMismatch as error:
            self._fault = error
            raise
        except Exception as error:
            if not is_unusable(error):
                raise
            raise self._failed(error) from error
        else:
            self._fault = None

    def _failed(self, error: BaseException) -> StoreUnavailable:
        self._fault = StoreUnavailable(reason_of(error))
        return self._fault

    async def _prepare(self) -> None:
        schema = await self._read_schema() if self.exists else Schema(None)
        if schema.fitness is Fitness.OLDER and self._options.upgrades:
            async with self._upgrading:
                schema = await self._upgrade()
        self._schema = schema
        if schema.fitness in {Fitness.OLDER, Fitness.TOO_NEW}:
            raise SchemaMismatch(schema.summary)
        self._fault = None

    async def _read_schema(self) -> Schema:
        async with self._deadline(), self._engine.connect() as connection:
            reading = await connection.execution_options(reads_only=True)
            return await reading.run_sync(read_schema)

    async def _upgrade(self) -> Schema:
        if self.embedded:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            self._file.touch(mode=PRIVATE)
            async with self._engine.begin() as connection:
                return await connection.run_sync(upgrade_schema)
        # A migration may take longer than any statement of a request.
        engine = self._connected(command_timeout=None, poolclass=NullPool)
        try:
            async with engine.begin() as connection:
                return await connection.run_sync(upgrade_schema)
        finally:
            await engine.dispose()

    def _sqlite(self) -> AsyncEngine:
        # Each transaction opens a new connection, since a connection is bound to one event loop.
        connecting = {"timeout": SQLITE_PATIENCE_SECONDS}
        engine = create_async_engine(self.url, connect_args=connecting, poolclass=NullPool)
        event.listen(engine.sync_engine, "connect", _prepare_sqlite)
        event.listen(engine.sync_engine, "begin", _begin_sqlite)
        return engine

    def _postgresql(self) -> AsyncEngine:
        return self._connected(
            command_timeout=self._options.timeout_seconds,
            pool_pre_ping=True,
            pool_size=self._options.pool_size,
            max_overflow=0,
            pool_timeout=self._options.timeout_seconds,
        )

    def _connected(self, *, command_timeout: float | None, **pool: Any) -> AsyncEngine:  # noqa: ANN401 - passed on
        return create_async_engine(
            self.url, async_creator=lambda: self._driver_connection(command_timeout), **pool
        )

    async def _driver_connection(self, command_timeout: float | None) -> Any:  # noqa: ANN401 - as above
        # Imported here because most processes use SQLite.
        import asyncpg  # noqa: PLC0415

        made: Awaitable[Any] = asyncpg.connect(
            driver_address(self.url), timeout=self._options.timeout_seconds, command_timeout=command_timeout
        )
        return await made


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
