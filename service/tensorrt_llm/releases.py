"""ManagerRules: what the cache managers of a release of TensorRT-LLM do, from dated data."""

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Final

from packaging.version import InvalidVersion, Version

from service.engines.dated import read_timelines, record_at
from service.nearest_names import quoted

OLDEST: Final = Version("0.5.0")


@dataclass(frozen=True, slots=True)
class ManagerRules:
    """What a release does."""

    newest: str
    tokens_per_block: int
    second_manager: bool
    releases_front_blocks: bool


class UnknownTensorrtRelease(ValueError):
    """A text names no release of TensorRT-LLM that is modelled."""

    def __init__(self, given: str) -> None:
        super().__init__(
            f"{quoted(given)} is no release of TensorRT-LLM that is modelled: {OLDEST} and later, "
            f"to {newest()}"
        )


def release_of(name: str | None) -> tuple[str, ManagerRules]:
    """Return a release by its name, or the newest one; and its name.

    Raises:
        UnknownTensorrtRelease: the text is no version, or an older one.
    """
    if name is None:
        return newest(), _rules_at(Version(newest()))
    try:
        version = Version(name.strip())
    except InvalidVersion as error:
        raise UnknownTensorrtRelease(name) from error
    release = Version(version.base_version)
    if release < OLDEST:
        raise UnknownTensorrtRelease(name)
    return str(version), _rules_at(release)


def newest() -> str:
    """Return the newest release that was read."""
    return _rules_at(OLDEST).newest


@cache
def _rules_at(release: Version) -> ManagerRules:
    text = resources.files("service.tensorrt_llm").joinpath("releases.toml").read_text("utf-8")
    tables = read_timelines("TensorRT-LLM", tomllib.loads(text), ManagerRules)
    return record_at(ManagerRules, tables, release)
