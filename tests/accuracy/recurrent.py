"""Rows of real releases for recurrent models that the bundled snapshot lacks, with the configs they ran on.

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

DATA = Path(__file__).parent.parent / "data" / "oracle" / "recurrent.json.gz"


@cache
def recorded() -> Mapping[str, Any]:
    """Return the configs by name, and the rows."""
    with gzip.open(DATA, "rt", encoding="utf-8") as text:
        document: Mapping[str, Any] = json.load(text)
    return document


@cache
def architecture(name: str) -> ModelArchitecture:
    """Read one of the configs."""
    return read_architecture(read_document(recorded()["configs"][name]))


def rows_by_config() -> Mapping[str, list[Mapping[str, Any]]]:
    """Return the rows of each config."""
    rows: dict[str, list[Mapping[str, Any]]] = {name: [] for name in recorded()["configs"]}
    for row in recorded()["rows"]:
        rows[row["config"]].append(row)
    return rows
