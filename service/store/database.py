"""One database, SQLite or PostgreSQL. Its tables are migrated at the first use.

SQLAlchemy takes longer to import than a plan takes, and most services never have a probe or a measurement. So
it is imported at the first use too; what is said of a file that is not there needs none of it.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from service.store.errors import SchemaMismatch, StoreUnavailable
from service.store.limits import POOL_SIZE, TIMEOUT_SECONDS
from service.store.schema import Fitness, Schema
from service.store.sqlite_file import plain_file

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from sqlalchemy import URL
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

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
        self._address = url
        self._plain_file = plain_file(url)
        self._options = options or DatabaseOptions()
        if self._plain_file is None:
            _ = self.url  # refuses it
        self._schema: Schema | None = None
        self._fault: StoreUnavailable | None = None
        self._upgrading = asyncio.Lock()

    @cached_property
    def url(self) -> URL:
        """The parsed address."""
        from service.store.database_url import check_url  # noqa: PLC0415 - at the first use, see above

        return check_url(self._address)

    @property
    def embedded(self) -> bool:
        """Whether this is SQLite."""
        return self._plain_file is not None or self.url.get_backend_name() == "sqlite"

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
        if self.embedded:
            return 0
        checked_out: Callable[[], int] = self._engine.pool.checkedout  # type: ignore[attr-defined]
        return checked_out()

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
        if "_engine" in self.__dict__:
            await self._engine.dispose()

    @property
    def _file(self) -> Path:
        return self._plain_file or Path(str(self.url.database))

    @cached_property
    def _engine(self) -> AsyncEngine:
        from service.store.engines import pooled, sqlite_engine  # noqa: PLC0415 - at the first use, see above

        if self.embedded:
            return sqlite_engine(self.url)
        creator = self._creator(self._options.timeout_seconds)
        return pooled(self.url, creator, self._options.pool_size, self._options.timeout_seconds)

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
            from service.store.faults import is_unusable  # noqa: PLC0415 - at the first use, see above

            if not is_unusable(error):
                raise
            raise self._failed(error) from error
        else:
            self._fault = None

    def _failed(self, error: BaseException) -> StoreUnavailable:
        from service.store.faults import reason_of  # noqa: PLC0415 - at the first use, see above

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
        from service.store.migrating import read_schema  # noqa: PLC0415 - at the first use, see above

        async with self._deadline(), self._engine.connect() as connection:
            reading = await connection.execution_options(reads_only=True)
            return await reading.run_sync(read_schema)

    async def _upgrade(self) -> Schema:
        from service.store.engines import unpooled  # noqa: PLC0415 - at the first use, see above
        from service.store.migrating import upgrade_schema  # noqa: PLC0415

        if self.embedded:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            self._file.touch(mode=PRIVATE)
            async with self._engine.begin() as connection:
                return await connection.run_sync(upgrade_schema)
        # A migration may take longer than any statement of a request.
        engine = unpooled(self.url, self._creator(None))
        try:
            async with engine.begin() as connection:
                return await connection.run_sync(upgrade_schema)
        finally:
            await engine.dispose()

    def _creator(self, command_timeout: float | None) -> Callable[[], Awaitable[Any]]:
        return lambda: self._driver_connection(command_timeout)

    async def _driver_connection(self, command_timeout: float | None) -> Any:  # noqa: ANN401 - as above
        # Imported here because most processes use SQLite.
        import asyncpg  # noqa: PLC0415

        from service.store.database_url import driver_address  # noqa: PLC0415

        made: Awaitable[Any] = asyncpg.connect(
            driver_address(self.url), timeout=self._options.timeout_seconds, command_timeout=command_timeout
        )
        return await made
