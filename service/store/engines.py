"""SQLAlchemy's engines for the two kinds of databases."""

import sqlite3
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

from sqlalchemy import URL, Connection, event
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool

Creator: TypeAlias = Callable[[], Awaitable[Any]]
"""Opens a connection of the driver."""

SQLITE_PATIENCE_SECONDS: Final = 30
"""How long a connection to SQLite waits for another writer."""


def sqlite_engine(url: URL) -> AsyncEngine:
    """Return the engine for a file of SQLite."""
    # Each transaction opens a new connection, since a connection is bound to one event loop.
    connecting = {"timeout": SQLITE_PATIENCE_SECONDS}
    engine = create_async_engine(url, connect_args=connecting, poolclass=NullPool)
    event.listen(engine.sync_engine, "connect", _prepare_sqlite)
    event.listen(engine.sync_engine, "begin", _begin_sqlite)
    return engine


def pooled(url: URL, creator: Creator, size: int, timeout_seconds: float) -> AsyncEngine:
    """Return the engine for PostgreSQL."""
    return create_async_engine(
        url,
        async_creator=creator,
        pool_pre_ping=True,
        pool_size=size,
        max_overflow=0,
        pool_timeout=timeout_seconds,
    )


def unpooled(url: URL, creator: Creator) -> AsyncEngine:
    """Return an engine for PostgreSQL that keeps no connection."""
    return create_async_engine(url, async_creator=creator, poolclass=NullPool)


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
