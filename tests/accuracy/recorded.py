"""Rows of real releases for models that the bundled snapshot lacks, with the configs they ran on.

Each answer is the release's own, as the oracle's are.
"""

import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from service.architecture.config import read_document
from service.architecture.model import ModelArchitecture
from service.architecture.reading import read_architecture

FOLDER = Path(__file__).parent.parent / "data" / "oracle"


@dataclass(frozen=True)
class Recorded:
    """One file of them, by its name without endings."""

    name: str

    @property
    def configs(self) -> Mapping[str, Any]:
        """The configs by name."""
        configs: Mapping[str, Any] = _document(self.name)["configs"]
        return configs

    @property
    def rows(self) -> list[Mapping[str, Any]]:
        """All rows."""
        rows: list[Mapping[str, Any]] = _document(self.name)["rows"]
        return rows

    @property
    def rows_by_config(self) -> Mapping[str, list[Mapping[str, Any]]]:
        """The rows of each config."""
        rows: dict[str, list[Mapping[str, Any]]] = {name: [] for name in self.configs}
        for row in self.rows:
            rows[row["config"]].append(row)
        return rows

    def architecture(self, name: str) -> ModelArchitecture:
        """Read one of the configs."""
        return _architecture(self.name, name)


RECURRENT, SPARSE, UNEVEN, LATE, DRAWN, SHARED = RECORDINGS = (
    Recorded("recurrent"),
    Recorded("sparse"),
    Recorded("uneven"),
    Recorded("late"),
    Recorded("drawn"),
    Recorded("shared"),
)
"""``drawn`` holds questions drawn at random: models, flags and GPUs, beside each release's own defaults,
and configs of 0.33.0 with a head_dim that its classes do not read (``head-dim``).
``shared`` holds DeepSeek V4.1, most of whose layers read what an earlier one compressed; its bytes leave out
tables of n-grams, which the engine keeps in the host's memory."""


@cache
def _document(name: str) -> Mapping[str, Any]:
    with gzip.open(FOLDER / f"{name}.json.gz", "rt", encoding="utf-8") as text:
        document: Mapping[str, Any] = json.load(text)
    return document


@cache
def _architecture(name: str, config: str) -> ModelArchitecture:
    return read_architecture(read_document(_document(name)["configs"][config]))
