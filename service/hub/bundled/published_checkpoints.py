"""Published checkpoints with quantized weights whose configs are not bundled."""

from collections.abc import Mapping
from functools import cache
from typing import Final

from service.bundled_toml import read_toml

DATA: Final = "published_checkpoints.toml"


def published_checkpoints_of(model_id: str) -> Mapping[str, str]:
    """Return where a model's published checkpoints are named, by their ids in the order of the file.

    The case of the model's id does not matter.
    """
    return _by_model().get(model_id.lower(), {})


def models_stored_by(checkpoint_id: str) -> tuple[str, ...]:
    """Return the models whose weights a published checkpoint holds; the case of its id does not matter."""
    wanted = checkpoint_id.lower()
    rows = read_toml("service.hub.bundled", DATA)["checkpoint"]
    return next((tuple(each["of"]) for each in rows if each["id"].lower() == wanted), ())


@cache
def _by_model() -> Mapping[str, Mapping[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for checkpoint in read_toml("service.hub.bundled", DATA)["checkpoint"]:
        for model in checkpoint["of"]:
            found.setdefault(model.lower(), {})[checkpoint["id"]] = checkpoint["source"]
    return found
