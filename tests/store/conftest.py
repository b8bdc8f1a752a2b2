"""Stores on an empty database of either kind, under a clock that tests set."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from service.store.database import Database
from service.store.jobs import JobStore


@dataclass
class SetClock:
    """A clock that stands still until it is set."""

    now: float = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    database = Database(database_url)
    yield database
    await database.close()


@pytest.fixture
def jobs(database: Database, clock: SetClock) -> JobStore:
    return JobStore(database, clock)
