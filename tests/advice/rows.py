"""Published commands and what experts chose, from files of one JSON object a line."""

import gzip
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from tests.advice.models import DATA

KEPT: Final = DATA / "recipes"
"""The part that the repository keeps."""
RECOMMENDED: Final = "recipes recommended (verified hw)"
GUIDE: Final = "recipes guide text"
CONTINUOUS: Final = "inferencex (ran in CI)"
MEASURED: Final = "gpustack (ran)"
LOGGED: Final = "startup log with numbers"
ALTERNATIVE: Final = "recipes auto-synthesised alternative"
GOOD_TIERS: Final = (RECOMMENDED, CONTINUOUS, GUIDE, MEASURED)
"""Tiers whose commands somebody ran or vouches for."""

Row = Mapping[str, Any]


def read_rows(folder: Path, name: str) -> tuple[Row, ...]:
    """Return the rows of one file of a folder, compressed or not; none where the folder lacks it."""
    for path in (folder / name, folder / f"{name}.gz"):
        if path.exists():
            return tuple(_lines(path))
    return ()


def _lines(path: Path) -> Iterator[Row]:
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)
