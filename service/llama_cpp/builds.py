"""Build: what a build of llama.cpp does, from dated data."""

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Final

from packaging.version import Version

from service.bundled_toml import read_toml
from service.engines.dated import read_timelines, record_at
from service.nearest_names import quoted

FLASH: Final = 1
"""Index of the padding with flash attention; 0 is without."""


class WindowRows(StrEnum):
    """How many cells of a window's cache each sequence needs."""

    WHOLE = "whole"
    """As many as the context: there is no cache of its own."""
    SLOTS_AND_BATCH = "slots_and_batch"
    """The window for each slot, and a batch."""
    SLOTS_AND_UBATCH = "slots_and_ubatch"
    """The window for each slot, and a micro-batch."""
    STREAM_AND_UBATCH = "stream_and_ubatch"
    """The window for each slot that shares the stream, and a micro-batch."""


@dataclass(frozen=True, slots=True)
class Build:
    """What a build does. Paddings are without and with flash attention, in cells."""

    newest: int
    """The newest build that was read."""
    window_rows: WindowRows
    window_padding: tuple[int, ...]
    context_padding: tuple[int, ...]
    mla_stores_values: bool
    """Layers with MLA store values beside the compressed vectors."""
    auto_slots: int
    """Slots of a server without `-np`; several share one cache."""
    cache_class: str
    """Class that logs the two caches of a model with sliding windows."""


class UnknownBuild(ValueError):
    """A text names no build of llama.cpp."""

    def __init__(self, given: str) -> None:
        super().__init__(
            f"{quoted(given)} is no build of llama.cpp: a build is named like b{_newest()}, the newest one"
        )


def build_named(name: str | None) -> tuple[str, Build]:
    """Return a build by its name (`b7079` or `7079`), or the newest one; and its name.

    A build after the newest that was read follows the rules of that one.

    Raises:
        UnknownBuild: the text is no build number.
    """
    if name is None:
        return f"b{_newest()}", build_at(_newest())
    found = re.fullmatch(r"b?([1-9][0-9]{0,5})", name.strip())
    if found is None:
        raise UnknownBuild(name)
    return f"b{found[1]}", build_at(int(found[1]))


@cache
def build_at(number: int) -> Build:
    """Return what the build of this number does."""
    table = read_toml("service.llama_cpp", "builds.toml")
    return record_at(Build, read_timelines("llama.cpp", table, Build), Version(str(number)))


def _newest() -> int:
    return build_at(1).newest
