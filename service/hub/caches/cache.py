"""Caches the Hub's responses in one SQLite file. Each entry has a hash; the least recently used go first.

Reasons for SQLite: it is in the standard library, one file is safe for several processes and after a crash,
and no key becomes a file name. The usual library, `diskcache`, unpickles what it reads, which is unsafe.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import astuple, dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

LIMIT_BYTES: Final = 256 << 20
ENTRY_BYTES: Final = 512
"""Bytes counted for an entry in addition to its body."""
BUSY_SECONDS: Final = 2.0
USED_SECONDS: Final = 3600.0
"""An entry's time of last use is updated at most this often, so that most reads write nothing."""

_VERSION: Final = 1
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS entries (
    owner TEXT NOT NULL, model TEXT NOT NULL, revision TEXT NOT NULL, file TEXT NOT NULL,
    body BLOB NOT NULL, digest BLOB NOT NULL, stored REAL NOT NULL, used REAL NOT NULL, size INTEGER NOT NULL,
    PRIMARY KEY (owner, model, revision, file));
CREATE INDEX IF NOT EXISTS entries_by_use ON entries (used, size);
"""
_KEY: Final = "owner = ? AND model = ? AND revision = ? AND file = ?"

_log = logging.getLogger("dryserve.hub.cache")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class CacheKey:
    """Identifies an entry: one file of a model at a revision, as seen with one owner's credential."""

    owner: str
    model: str
    revision: str
    file: str


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """An entry's bytes and the time they were stored, in seconds since the epoch."""

    body: bytes
    stored: float


@dataclass(frozen=True, slots=True)
class CheckedEntry:
    """The result of checking one entry: its key, the bytes of its body, and whether its hash matches."""

    key: CacheKey
    size: int
    intact: bool


class HubCache:
    """A cache of at most `limit_bytes`; the least recently used entries are deleted first.

    No fault of the file raises; each counts as a cache miss. A damaged entry is deleted, a damaged file is
    recreated, and if no file can be written, entries are stored in memory. With `path` None they always are.
    """

    def __init__(
        self,
        path: Path | None = None,
        *,
        limit_bytes: int = LIMIT_BYTES,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.path = path
        self.clock = clock
        self.on_lookup: list[Callable[[bool], None]] = []
        """Called with whether an entry was found, at each look-up."""
        self.was_damaged = False
        """Whether the file was no database, or a damaged one, and was deleted."""
        self._limit_bytes = limit_bytes
        self._connection: sqlite3.Connection | None = None
        # One thread: the event loop never waits for the file, and only one action uses it at a time.
        self._thread = ThreadPoolExecutor(1, "hub-cache")

    async def get(self, key: CacheKey) -> StoredEntry | None:
        """Return an entry; None where there is none or it is damaged."""
        found = await self._in_thread(lambda: self._guarded(lambda: self._get(key), None))
        for each in self.on_lookup:
            each(found is not None)
        return found

    async def put(self, key: CacheKey, body: bytes) -> None:
        """Store an entry and replace an older one. An entry larger than the whole cache is not stored."""
        if len(body) + ENTRY_BYTES <= self._limit_bytes:
            await self._in_thread(lambda: self._guarded(lambda: self._put(key, body), None))

    async def models(self, owner: str) -> tuple[str, ...]:
        """Return the ids of the models of which an owner has entries, in alphabetical order."""
        return await self._in_thread(lambda: self._guarded(lambda: self._models(owner), ()))

    async def check(self) -> list[CheckedEntry]:
        """Read every entry, delete the damaged ones, and return the result for each."""
        return await self._in_thread(lambda: self._guarded(lambda: list(self._check()), []))

    async def close(self) -> None:
        """Close the file."""
        await self._in_thread(self._disconnect)
        self._thread.shutdown(wait=False)

    async def _in_thread(self, action: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._thread, action)

    def _guarded(self, action: Callable[[], Result], fallback: Result) -> Result:
        try:
            return action()
        except sqlite3.OperationalError as error:  # locked, full or no longer writable: it may pass
            _log.warning("the cache cannot be used now: %s", error)
        except sqlite3.DatabaseError as error:
            _log.warning("the cache file is damaged and will be recreated: %s", error)
            self._recreate()
        return fallback

    def _recreate(self) -> None:
        self.was_damaged = True
        self._disconnect()
        if self.path is not None:
            for suffix in ("", "-wal", "-shm"):
                with suppress(OSError):
                    self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)

    def _get(self, key: CacheKey) -> StoredEntry | None:
        connection = self._connected()
        query = f"SELECT body, digest, stored, used FROM entries WHERE {_KEY}"  # noqa: S608 - a constant
        row = connection.execute(query, astuple(key)).fetchone()
        if row is None:
            return None
        body, digest, stored, used = row
        if not _is_intact(key, body, digest):
            _log.warning("a cache entry is damaged and will be fetched again")
            self._drop(key)
            return None
        if abs(self.clock() - used) > USED_SECONDS:
            self._touch(key)
        return StoredEntry(body, stored)

    def _models(self, owner: str) -> tuple[str, ...]:
        query = "SELECT DISTINCT model FROM entries WHERE owner = ? ORDER BY model"
        return tuple(str(model) for (model,) in self._connected().execute(query, (owner,)))

    def _touch(self, key: CacheKey) -> None:
        connection = self._connected()
        with suppress(sqlite3.OperationalError), connection:  # a read-only file can still be read
            values = (self.clock(), *astuple(key))
            connection.execute(f"UPDATE entries SET used = ? WHERE {_KEY}", values)  # noqa: S608 - a constant

    def _put(self, key: CacheKey, body: bytes) -> None:
        now, connection = self.clock(), self._connected()
        row = (*astuple(key), body, _digest(key, body), now, now, len(body) + ENTRY_BYTES)
        with connection:
            connection.execute("INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
            while connection.execute("SELECT SUM(size) FROM entries").fetchone()[0] > self._limit_bytes:
                oldest = "SELECT rowid FROM entries ORDER BY used, rowid LIMIT 1"
                connection.execute(f"DELETE FROM entries WHERE rowid = ({oldest})")  # noqa: S608 - a constant

    def _check(self) -> Iterator[CheckedEntry]:
        connection = self._connected()
        rows = connection.execute(
            "SELECT rowid, owner, model, revision, file FROM entries ORDER BY 2, 3, 4, 5"
        )
        for rowid, *names in rows.fetchall():
            key = CacheKey(*names)
            query = "SELECT body, digest FROM entries WHERE rowid = ?"
            body, digest = connection.execute(query, (rowid,)).fetchone()
            intact = _is_intact(key, body, digest)
            if not intact:
                self._drop(key)
            yield CheckedEntry(key, len(body), intact)

    def _drop(self, key: CacheKey) -> None:
        connection = self._connected()
        with connection:
            connection.execute(f"DELETE FROM entries WHERE {_KEY}", astuple(key))  # noqa: S608

    def _connected(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = self._opened()
        return self._connection

    def _opened(self) -> sqlite3.Connection:
        if self.path is not None:
            try:
                return self._opened_file(self.path)
            except (OSError, sqlite3.OperationalError) as error:
                _log.warning("the cache file cannot be used, so entries are stored in memory: %s", error)
        return _open(":memory:")

    def _opened_file(self, path: Path) -> sqlite3.Connection:
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.touch(mode=0o600)  # it may hold files that need the service's token
            return _open(str(path))
        except (OSError, sqlite3.OperationalError):
            if not path.is_file():
                raise
            _log.warning("the cache file cannot be written, so it is only read")
            return sqlite3.connect(
                f"{path.absolute().as_uri()}?immutable=1", uri=True, check_same_thread=False
            )

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _is_locked(error: Exception) -> bool:
    return (
        isinstance(error, sqlite3.OperationalError) and error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
    )


def _open(path: str) -> sqlite3.Connection:
    """Open the file; while another process makes it, SQLite refuses a write-ahead log without waiting."""
    try:
        return _open_once(path)
    except sqlite3.OperationalError as error:
        if not _is_locked(error):
            raise
    from service.hub.retries import retry  # noqa: PLC0415 - only a locked file needs it

    opened = retry(on=_is_locked, attempts=None, timeout=BUSY_SECONDS, wait_initial=0.01, wait_max=0.1)
    return opened(_open_once)(path)


def _open_once(path: str) -> sqlite3.Connection:
    # One thread opens, uses and closes it, except at the end of the process.
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        with closing(connection.execute("PRAGMA user_version")) as cursor:
            version = cursor.fetchone()[0]
        if version not in {0, _VERSION}:
            connection.execute("DROP TABLE IF EXISTS entries")
        connection.executescript(_SCHEMA)
        connection.execute(f"PRAGMA user_version = {_VERSION}")
    except BaseException:
        connection.close()
        raise
    return connection


def _digest(key: CacheKey, body: bytes) -> bytes:
    # The key is hashed too, so that a body cannot be stored under another key.
    name = "\0".join(astuple(key)).encode("utf-8", "surrogatepass")
    return sha256(len(name).to_bytes(8, "big") + name + body).digest()


def _is_intact(key: CacheKey, body: object, digest: object) -> bool:
    return isinstance(body, bytes) and digest == _digest(key, body)
