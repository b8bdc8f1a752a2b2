"""A released contract does not change: whoever changes it raises the version."""

import hashlib
import json
import tomllib
from pathlib import Path

import pytest
from fastapi import FastAPI
from packaging.version import Version

from service import __version__

RELEASED = Path(__file__).parents[1] / "data" / "openapi" / "released.toml"


def digest(app: FastAPI) -> str:
    """Return the SHA-256 of the contract without its version, whatever the order of its keys."""
    document = json.loads(json.dumps(app.openapi()))
    del document["info"]["version"]
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def released() -> dict[str, str]:
    """Return the digests of released contracts by version."""
    contracts: dict[str, str] = tomllib.loads(RELEASED.read_text("utf-8"))["contracts"]
    return contracts


def test_a_released_contract_is_unchanged(app: FastAPI) -> None:
    now = digest(app)
    if __version__ in released():
        assert now == released()[__version__], f"raise service.__version__; the contract is now {now}"
    else:
        assert now not in released().values(), f"{__version__} has the contract of an older version"


@pytest.mark.parametrize("name", sorted(released()))
def test_versions_are_never_newer_than_this_one(name: str) -> None:
    assert Version(name) <= Version(__version__)
