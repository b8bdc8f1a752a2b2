"""What the Hub answered, kept: in one SQLite file, checked by hash, least recently used out first.

SQLite and not a library of caches: it is in the standard library, one file is safe for several processes and
after a crash, and no key ever becomes the name of a file. (`diskcache`, the usual choice, unpickles what it
reads.)
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
"""What an entry is counted for beside its body."""
BUSY_SECONDS: Final = 2.0
USED_SECONDS: Final = 3600.0
"""How stale the time of an entry's last use may become, so that not every read is a write."""

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
class Key:
    """What an entry is about: a file of a repository at a revision, as one owner may see it."""

    owner: str
    model: str
    revision: str
    file: str


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """An entry's bytes and when they were stored, in seconds since the epoch."""

    body: bytes
    stored: float


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry as a check found it."""

    key: Key
    size: int
    whole: bool


class HubCache:
    """Entries by key; at most `limit_bytes` of them.

    Every fault of the file is a miss: a damaged entry is dropped, a damaged file is begun anew, and where no
    file can be written entries are kept in memory. `path` None keeps them there from the start.
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
        self._limit_bytes = limit_bytes
        self._connection: sqlite3.Connection | None = None
        # One thread, so that the file is never waited for on the event loop and used by one at a time.
        self._thread = ThreadPoolExecutor(1, "hub-cache")

    async def get(self, key: Key) -> StoredAnswer | None:
        """Return an entry, or None where there is no whole one."""
        return await self._apart(lambda: self._guarded(lambda: self._get(key), None))

    async def put(self, key: Key, body: bytes) -> None:
        """Keep an entry, in place of an older one; one beyond the limit on its own is not kept."""
        if len(body) + ENTRY_BYTES <= self._limit_bytes:
            await self._apart(lambda: self._guarded(lambda: self._put(key, body), None))

    async def check(self) -> list[Entry]:
        """Read every entry, drop those that are damaged, and return all as they were found."""
        return await self._apart(lambda: self._guarded(lambda: list(self._check()), []))

    async def close(self) -> None:
        """Close the file."""
        await self._apart(self._disconnect)
        self._thread.shutdown(wait=False)

    async def _apart(self, action: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._thread, action)

    def _guarded(self, action: Callable[[], Result], otherwise: Result) -> Result:
        try:
            return action()
        except sqlite3.OperationalError as error:  # locked, full or no longer writable: another time perhaps
            _log.warning("the cache cannot be used now: %s", error)
        except sqlite3.DatabaseError as error:
            _log.warning("the cache is damaged and begun anew: %s", error)
            self._begin_anew()
        return otherwise

    def _begin_anew(self) -> None:
        self._disconnect()
        if self.path is not None:
            for suffix in ("", "-wal", "-shm"):
                with suppress(OSError):
                    self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)

    def _get(self, key: Key) -> StoredAnswer | None:
        connection = self._connected()
        query = f"SELECT body, digest, stored, used FROM entries WHERE {_KEY}"  # noqa: S608 - a constant
        row = connection.execute(query, astuple(key)).fetchone()
        if row is None:
            return None
        body, digest, stored, used = row
        if not _whole(key, body, digest):
            _log.warning("an entry of the cache is damaged and fetched anew")
            self._drop(key)
            return None
        if abs(self.clock() - used) > USED_SECONDS:
            self._touch(key)
        return StoredAnswer(body, stored)

    def _touch(self, key: Key) -> None:
        connection = self._connected()
        with suppress(sqlite3.OperationalError), connection:  # what can only be read is read all the same
            values = (self.clock(), *astuple(key))
            connection.execute(f"UPDATE entries SET used = ? WHERE {_KEY}", values)  # noqa: S608 - a constant

    def _put(self, key: Key, body: bytes) -> None:
        now, connection = self.clock(), self._connected()
        row = (*astuple(key), body, _digest(key, body), now, now, len(body) + ENTRY_BYTES)
        with connection:
            connection.execute("INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
            while connection.execute("SELECT SUM(size) FROM entries").fetchone()[0] > self._limit_bytes:
                oldest = "SELECT rowid FROM entries ORDER BY used, rowid LIMIT 1"
                connection.execute(f"DELETE FROM entries WHERE rowid = ({oldest})")  # noqa: S608 - a constant

    def _check(self) -> Iterator[Entry]:
        connection = self._connected()
        rows = connection.execute(
            "SELECT rowid, owner, model, revision, file FROM entries ORDER BY 2, 3, 4, 5"
        )
        for rowid, *names in rows.fetchall():
            key = Key(*names)
            query = "SELECT body, digest FROM entries WHERE rowid = ?"
            body, digest = connection.execute(query, (rowid,)).fetchone()
            whole = _whole(key, body, digest)
            if not whole:
                self._drop(key)
            yield Entry(key, len(body), whole)

    def _drop(self, key: Key) -> None:
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
                _log.warning("the cache is kept in memory, since its file cannot be used: %s", error)
        return _open(":memory:")

    def _opened_file(self, path: Path) -> sqlite3.Connection:
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.touch(mode=0o600)  # it may hold what only the service's token opens
            return _open(str(path))
        except (OSError, sqlite3.OperationalError):
            if not path.is_file():
                raise
            _log.warning("the cache is only read, since its file cannot be written")
            return sqlite3.connect(
                f"{path.absolute().as_uri()}?immutable=1", uri=True, check_same_thread=False
            )

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _open(path: str) -> sqlite3.Connection:
    # Begun and closed in the one thread, except at the end of the process.
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


def _digest(key: Key, body: bytes) -> bytes:
    # Of the key too, so that no entry can stand for another.
    named = "\0".join(astuple(key)).encode("utf-8", "surrogatepass")
    return sha256(len(named).to_bytes(8, "big") + named + body).digest()


def _whole(key: Key, body: object, digest: object) -> bool:
    return isinstance(body, bytes) and digest == _digest(key, body)
