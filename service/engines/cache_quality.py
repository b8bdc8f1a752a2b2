"""What a cache dtype costs in quality, as published: data with sources, none of it measured here."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from service.bundled_toml import read_toml


class Published(StrEnum):
    """What stands behind the words about a loss of quality."""

    FIGURES = "figures"
    """Figures of several models."""
    VENDOR = "vendor"
    """The account of a vendor."""
    ONE_MODEL = "one_model"
    """Figures of one model."""
    NOTHING = "nothing"
    """No figure."""


@dataclass(frozen=True, slots=True)
class CacheQuality:
    """What is known of a dtype's quality."""

    loss: int
    """Place in the order of loss, 0 for none."""
    bits: int
    """Of an element, those of a key or a value, whichever has fewer; 0 where they are not known."""
    effect: str
    """What the source reports, in short."""
    source: str
    published: Published = Published.FIGURES


def _read(tables: str) -> Mapping[str, CacheQuality]:
    found = read_toml("service.engines", "cache_quality.toml")[tables]
    return {
        name: CacheQuality(**{**table, "published": Published(table.get("published", Published.FIGURES))})
        for name, table in found.items()
    }


QUALITIES: Final = _read("dtypes")
"""By cache dtype, as the engine stores it."""
CASES: Final = _read("cases")
"""By what matters more than the dtype."""
UNKNOWN: Final = CacheQuality(
    max(quality.loss for quality in QUALITIES.values()) + 1,
    0,
    "nothing is published about it",
    "none",
    Published.NOTHING,
)


def quality_of(dtype: str | None, *, is_misread: bool = False, is_published: bool = False) -> CacheQuality:
    """Return what is published about a dtype; ``UNKNOWN`` where nothing is.

    Args:
        dtype: as it is stored.
        is_misread: the engine reads it as another type than it was written in.
        is_published: the checkpoint itself asks for it.
    """
    if is_misread:
        return CASES["misread"]
    if is_published:
        return CASES["published"]
    return QUALITIES.get(dtype or "", UNKNOWN)
