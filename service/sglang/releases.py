"""PoolRules: what a release of SGLang does, from dated data."""

import tomllib
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib import resources
from typing import Final

from packaging.version import InvalidVersion, Version

from service.engines.dated import read_timelines, record_at
from service.nearest_names import quoted

OLDEST: Final = Version("0.4.9")


class PoolSplit(StrEnum):
    """How the budget is divided between full layers and those with a window."""

    BY_SHARE = "by_share"
    """A share of the tokens that all layers would get; only if it is asked for."""
    BY_LAYERS = "by_layers"
    """By the numbers of layers, as if all had the same size."""
    BY_COUNT = "by_count"
    """By the bytes of both kinds, from a whole number of tokens."""
    BY_BYTES = "by_bytes"
    """By the bytes of both kinds."""


@dataclass(frozen=True, slots=True)
class PoolRules:
    """What a release does."""

    newest: str
    split: PoolSplit
    windowed: frozenset[str]
    """Classes whose layers with a window have a pool of their own."""
    unwindowed: frozenset[str]
    """Classes that have none, where all others have one."""
    caps_windows: bool
    refuses_small_windows: bool
    empty_budget: str
    multimodal_mib: int
    sizes_values: bool
    spare_states: int
    fraction_floor_mib: int

    def splits(self, class_name: str) -> bool:
        """Whether layers of a class with windows have a pool of their own."""
        return class_name in self.windowed if not self.unwindowed else class_name not in self.unwindowed


class UnknownSglangRelease(ValueError):
    """A text names no release of SGLang that is modelled."""

    def __init__(self, given: str) -> None:
        super().__init__(
            f"{quoted(given)} is no release of SGLang that is modelled: {OLDEST} and later, to {newest()}"
        )


def release_named(name: str | None) -> tuple[str, PoolRules]:
    """Return a release by its name, or the newest one; and its name.

    Raises:
        UnknownSglangRelease: the text is no version, or an older one.
    """
    if name is None:
        return newest(), rules_at(Version(newest()))
    try:
        version = Version(name.strip())
    except InvalidVersion as error:
        raise UnknownSglangRelease(name) from error
    # A candidate such as 0.5.0rc2 behaves as the release that it precedes.
    release = Version(version.base_version)
    if release < OLDEST:
        raise UnknownSglangRelease(name)
    return str(version), rules_at(release)


@cache
def rules_at(release: Version) -> PoolRules:
    """Return what a release does.

    Raises:
        LookupError: the release is older than the dated data.
    """
    text = resources.files("service.sglang").joinpath("releases.toml").read_text("utf-8")
    return record_at(PoolRules, read_timelines("SGLang", tomllib.loads(text), PoolRules), release)


def newest() -> str:
    """Return the newest release that was read."""
    return rules_at(OLDEST).newest
