"""Ids of published checkpoints with 4-bit weights whose configs are not bundled."""

from collections.abc import Mapping
from functools import cache
from typing import Final

from service.bundled_toml import read_toml

DATA: Final = "published_checkpoints.toml"


def published_checkpoints_of(model_id: str) -> tuple[str, ...]:
    """Return the ids of a model's published checkpoints, in the order of the file; case does not matter."""
    return _by_model().get(model_id.lower(), ())


@cache
def _by_model() -> Mapping[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for checkpoint in read_toml("service.hub", DATA)["checkpoint"]:
        for model in checkpoint["of"]:
            found[model.lower()] = (*found.get(model.lower(), ()), checkpoint["id"])
    return found
