"""What is kept stays what it was, in bounds, for several processes and through damage."""

import asyncio
import json
import sqlite3
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from service.hub.caches.cache import ENTRY_BYTES, CacheKey, HubCache
from tests.hub.fake_hub import (
    COMMIT,
    LLAMA,
    MODEL,
    hub_with_model,
)


@dataclass
class Clock:
    now: float = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def key(file: str = "config.json", owner: str = "") -> CacheKey:
    return CacheKey(owner, MODEL, COMMIT, file)


def damaged(path: Path, garbage: bytes) -> Path:
    path.write_bytes(garbage)
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "hub.sqlite3"


async def test_an_entry_survives_a_restart(path: Path) -> None:
    first = HubCache(path, clock=Clock())
    await first.put(key(), b"kept")
    await first.close()
    second = HubCache(path)
    kept = await second.get(key())
    assert kept is not None
    assert (kept.body, kept.stored) == (b"kept", 1_000_000.0)
    assert await second.get(key("params.json")) is None
    assert await second.get(key(owner="another")) is None
    await second.close()


async def test_the_least_recently_used_entries_make_room(path: Path) -> None:
    clock = Clock()
    cache = HubCache(path, limit_bytes=3 * (1000 + ENTRY_BYTES), clock=clock)
    for file in ("a", "b", "c"):
        await cache.put(key(file), b"x" * 1000)
        clock.now += 7200
    assert await cache.get(key("a")) is not None
    clock.now += 7200
    await cache.put(key("d"), b"x" * 1000)
    assert [entry.key.file for entry in await cache.check()] == ["a", "c", "d"]
    await cache.put(key("e"), b"x" * 5000)
    assert await cache.get(key("e")) is None
    await cache.close()


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE entries SET body = 'other'",
        "UPDATE entries SET body = substr(body, 2)",
        "UPDATE entries SET digest = zeroblob(32)",
        "UPDATE entries SET file = 'params.json'",
    ],
)
async def test_a_damaged_entry_is_none(path: Path, damage: str) -> None:
    cache = HubCache(path)
    await cache.put(key(), b"kept")
    with sqlite3.connect(path) as other:
        other.execute(damage)
    other.close()
    assert await cache.get(key()) is None
    assert await cache.get(key("params.json")) is None
    assert await cache.check() == []
    await cache.close()


async def test_a_check_names_what_it_drops(path: Path) -> None:
    cache = HubCache(path)
    await cache.put(key("a"), b"kept")
    await cache.put(key("b"), b"kept")
    with sqlite3.connect(path) as other:
        other.execute("UPDATE entries SET body = 'other' WHERE file = 'b'")
    other.close()
    assert [(entry.key.file, entry.intact) for entry in await cache.check()] == [("a", True), ("b", False)]
    assert [entry.key.file for entry in await cache.check()] == ["a"]
    await cache.close()


@pytest.mark.parametrize(
    "garbage",
    [b"not a database at all, but long enough to be one" * 99, b"SQLite format 3\0" + b"\xff" * 5000],
)
async def test_a_damaged_file_is_begun_anew(garbage: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = damaged(tmp_path_factory.mktemp("cache") / "hub.sqlite3", garbage)
    cache = HubCache(path)
    assert await cache.get(key()) is None
    await cache.put(key(), b"kept")
    assert await cache.get(key()) is not None
    await cache.close()


async def test_where_no_file_can_be_written_memory_serves(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    cache = HubCache(tmp_path / "file" / "hub.sqlite3")
    await cache.put(key(), b"kept")
    assert await cache.get(key()) is not None
    await cache.close()


async def test_a_file_that_can_only_be_read_is_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = HubCache(path, clock=Clock())
    await first.put(key(), b"kept")
    await first.close()

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError("a disk of this kind")

    monkeypatch.setattr(Path, "touch", refuse)
    second = HubCache(path)
    kept = await second.get(key())
    assert kept is not None
    assert kept.body == b"kept"
    await second.put(key("other"), b"lost")
    assert await second.get(key("other")) is None
    assert await second.get(key()) is not None
    await second.close()


async def test_nobody_else_may_read_the_file(path: Path) -> None:
    cache = HubCache(path)
    await cache.put(key(), b"kept")
    assert await asyncio.to_thread(lambda: path.stat().st_mode & 0o077) == 0
    await cache.close()


WRITER = """
import asyncio, sys
from pathlib import Path
from service.hub.caches.cache import CacheKey, HubCache
async def main():
    cache = HubCache(Path(sys.argv[1]))
    for n in range(50):
        await cache.put(CacheKey("", "acme/tiny", "0" * 40, f"{sys.argv[2]}-{n}"), b"x" * 2000)
        await cache.put(CacheKey("", "acme/tiny", "0" * 40, "shared"), sys.argv[2].encode() * 1000)
        assert await cache.get(CacheKey("", "acme/tiny", "0" * 40, "shared")) is not None
asyncio.run(main())
"""


async def test_several_processes_share_a_file(path: Path) -> None:
    def write(name: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", WRITER, str(path), name]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)  # noqa: S603

    done = await asyncio.gather(*(asyncio.to_thread(write, name) for name in "abc"))
    assert [one.stderr for one in done] == ["", "", ""]
    cache = HubCache(path)
    entries = await cache.check()
    assert len(entries) == 3 * 50 + 1
    assert all(entry.intact for entry in entries)
    await cache.close()


async def test_a_file_that_another_process_makes_is_waited_for(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN EXCLUSIVE")
    released = asyncio.get_running_loop().call_later(0.3, other.rollback)
    hub = hub_with_model()
    client = hub.client(cache=HubCache(path))
    fetched = await client.fetch(MODEL)
    await client.close()
    released.cancel()
    other.close()

    again = hub.client(cache=HubCache(path))
    requested = len(hub.requests)
    assert await again.fetch(MODEL) == fetched
    assert len(hub.requests) == requested
    await again.close()


async def test_a_client_begun_anew_asks_nothing(path: Path) -> None:
    hub = hub_with_model()
    first = hub.client(cache=HubCache(path))
    fetched = await first.fetch(MODEL)
    await first.close()
    requested = len(hub.requests)
    second = hub.client(cache=HubCache(path))
    assert await second.fetch(MODEL) == fetched
    assert await second.fetch(MODEL, COMMIT) == fetched
    assert len(hub.requests) == requested
    await second.close()


async def test_a_damaged_config_is_fetched_anew(path: Path) -> None:
    hub = hub_with_model()
    client = hub.client(cache=HubCache(path))
    await client.fetch(MODEL)
    with sqlite3.connect(path) as other:
        body = json.dumps({"architectures": ["Forged"]})
        other.execute("UPDATE entries SET body = ? WHERE file = 'config.json'", (body.encode(),))
    other.close()
    requested = len(hub.requests)
    assert (await client.fetch(MODEL)).config == LLAMA
    assert len(hub.requests) == requested + 1
    await client.close()
