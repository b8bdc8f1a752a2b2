"""What every test may ask for."""

from collections.abc import Iterator

import pytest
from hypothesis import settings

from service.hub.snapshot import BundledSnapshot

settings.register_profile("default", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("default")


@pytest.fixture(scope="session")
def snapshot() -> BundledSnapshot:
    """Return the bundled configs."""
    return BundledSnapshot()


@pytest.fixture(scope="session", autouse=True)
def _no_cache_of_this_machine() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DRYSERVE_CACHE", ":memory:")
        yield
