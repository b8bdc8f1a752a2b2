"""Models of the bundled snapshot, and their memory as real releases and logs state it."""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from service.architecture.config import read_document
from service.architecture.model import ModelArchitecture
from service.architecture.reading import read_architecture, with_modelopt_file
from service.hub.bundled.snapshot import BundledSnapshot

DATA = Path(__file__).parents[1] / "data" / "memory"
SNAPSHOT = BundledSnapshot(withheld={})
"""With the models that are not planned: releases weighed their copies too."""


def records(name: str) -> list[dict[str, Any]]:
    """Return the rows of one file of recorded facts."""
    rows: list[dict[str, Any]] = json.loads((DATA / name).read_bytes())
    return rows


@cache
def bundled(model_id: str) -> ModelArchitecture:
    """Return a model of the snapshot."""
    return altered(model_id)


def altered(
    model_id: str | None, overrides: Mapping[str, Any] | None = None, quantization: object = None
) -> ModelArchitecture:
    """Return a model of the snapshot with some fields of its config set."""
    document: dict[str, Any] = {}
    if model_id is not None:
        fetched = SNAPSHOT.get(model_id)
        assert fetched is not None, model_id
        document = dict(with_modelopt_file(fetched.config, fetched.quantization_config))
    document |= overrides or {}
    if quantization is not None:
        document["quantization_config"] = quantization
    return read_architecture(read_document(document))


def capability(text: str) -> tuple[int, int]:
    """Return a compute capability from its text."""
    major, _, minor = text.partition(".")
    return int(major), int(minor)
