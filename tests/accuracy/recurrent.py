"""Rows of real releases that the bundled snapshot lacks, with the configs they ran on.

One recording is of recurrent models, another of models whose layers differ or keep more than one cache.

Each answer is the release's own, as the oracle's are; the configs are sizes of published checkpoints, the
config classes' defaults, or variations of them (a name says which one it is like).
"""

import gzip
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from service.architecture.config import read_document
from service.architecture.model import ModelArchitecture
from service.architecture.reading import read_architecture

DATA = Path(__file__).parent.parent / "data" / "oracle"
RECURRENT = "recurrent"
UNEVEN = "uneven"


@cache
def recorded(recording: str = RECURRENT) -> Mapping[str, Any]:
    """Return the configs by name, and the rows."""
    with gzip.open(DATA / f"{recording}.json.gz", "rt", encoding="utf-8") as text:
        document: Mapping[str, Any] = json.load(text)
    return document


@cache
def architecture(name: str, recording: str = RECURRENT) -> ModelArchitecture:
    """Read one of the configs."""
    return read_architecture(read_document(recorded(recording)["configs"][name]))


def rows_by_config(recording: str = RECURRENT) -> Mapping[str, list[Mapping[str, Any]]]:
    """Return the rows of each config."""
    rows: dict[str, list[Mapping[str, Any]]] = {name: [] for name in recorded(recording)["configs"]}
    for row in recorded(recording)["rows"]:
        rows[row["config"]].append(row)
    return rows
