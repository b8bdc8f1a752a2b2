"""What every test may ask for."""

import pytest
from hypothesis import settings

from service.hub.snapshot import BundledSnapshot

settings.register_profile("default", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("default")


@pytest.fixture(scope="session")
def snapshot() -> BundledSnapshot:
    """Return the bundled configs."""
    return BundledSnapshot()
