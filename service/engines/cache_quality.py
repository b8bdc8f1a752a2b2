"""What a cache dtype costs in quality, as published: data with sources, none of it measured here."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Final


@dataclass(frozen=True, slots=True)
class CacheQuality:
    """What is known of a dtype's quality."""

    loss: int
    """Place in the order of loss, 0 for none."""
    effect: str
    """What the source reports, in short."""
    source: str


def _read() -> Mapping[str, CacheQuality]:
    text = files("service.engines").joinpath("cache_quality.toml").read_text("utf-8")
    return {name: CacheQuality(**table) for name, table in tomllib.loads(text)["dtypes"].items()}


QUALITIES: Final = _read()
"""By cache dtype, as the engine stores it."""
UNKNOWN: Final = CacheQuality(
    max(quality.loss for quality in QUALITIES.values()) + 1,
    "nothing is published about it",
    "none",
)


def quality_of(dtype: str | None) -> CacheQuality:
    """Return what is published about a dtype; ``UNKNOWN`` where nothing is."""
    return QUALITIES.get(dtype or "", UNKNOWN)
