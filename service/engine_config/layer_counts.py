"""Config classes that want as many types of layers as there are layers."""

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from packaging.version import Version

from service.architecture.model import ModelArchitecture
from service.bundled_toml import read_toml
from service.engines.refusal import EngineRefusal, Stage

DATA: Final = "layer_counts.toml"


@cache
def _checked(release: Version) -> Mapping[str, Any]:
    """Return the newest entry that holds."""
    entries = read_toml("service.engine_config", DATA)["checked"]
    found: Mapping[str, Any] = {"types": ()}
    for each in entries:
        if Version(each["since"]) <= release:
            found = each
    return found


def check_layer_counts(architecture: ModelArchitecture, release: Version) -> None:
    """Refuse a list of types of layers that is longer or shorter than the number of layers.

    Raises:
        EngineRefusal: stage ``config``.
    """
    entry = _checked(release)
    for each in sorted(architecture.declared.uncounted_layers, key=lambda found: found.model_type):
        if each.model_type in entry["types"]:
            raise EngineRefusal(
                Stage.CONFIG,
                entry["words"].format(layers=each.layers, listed=each.listed),
                type=entry["error"],
                detail="Give layer_types an entry for each layer, no more and no fewer.",
            )
