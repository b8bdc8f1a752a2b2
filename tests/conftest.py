"""What every test may ask for."""

import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from service.hub.bundled.snapshot import BundledSnapshot
from tests.store.postgresql import binaries, new_database, running_postgresql

settings.register_profile("default", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("default")


@pytest.fixture(scope="session")
def snapshot() -> BundledSnapshot:
    """Return the bundled configs."""
    return BundledSnapshot()


@pytest.fixture(scope="session", autouse=True)
def _own_state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep tests, and the processes that they start, away from the databases of whoever runs them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DRYSERVE_CACHE", ":memory:")
        patch.setenv("DRYSERVE_DATABASE_URL", f"sqlite:///{tmp_path_factory.mktemp('state')}/none.db")
        yield


@pytest.fixture(scope="session")
def postgresql() -> Iterator[str]:
    """Return a server's address; without the programs tests are skipped, but not where all must run."""
    programs = binaries()
    if programs is None:
        words = "PostgreSQL is not installed (Debian: apt-get install postgresql)"
        if os.environ.get("CI"):
            pytest.fail(words)
        pytest.skip(words)
    with running_postgresql(programs) as address:
        yield address


@pytest.fixture(params=["sqlite", "postgresql"])
def new_database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], str]:
    """Return what makes the address of an empty database, of either kind."""
    if request.param == "sqlite":
        return lambda: f"sqlite:///{tmp_path}/{uuid.uuid4().hex}.db"
    server: str = request.getfixturevalue("postgresql")
    return lambda: new_database(server)


@pytest.fixture
def database_url(new_database_url: Callable[[], str]) -> str:
    """Return the address of an empty database, of either kind."""
    return new_database_url()
