"""Config classes that want as many types of layers as there are layers, and only types that they know."""

from collections.abc import Mapping
from functools import cache
from itertools import chain
from typing import Any, Final

from packaging.version import Version

from service.architecture.model import ModelArchitecture
from service.bundled_toml import read_toml
from service.engines.refusal import EngineRefusal, Stage

DATA: Final = "layer_types.toml"
WRAPPED: Final = "ModelConfig: {}"
"""What becomes of a ValueError that a config class raises."""


@cache
def _checked(release: Version) -> Mapping[str, Any]:
    """Return the newest entry that holds."""
    entries = read_toml("service.engine_config", DATA)["checked"]
    found: Mapping[str, Any] = {"types": (), "names_alone": (), "plain": ()}
    for each in entries:
        if Version(each["since"]) <= release:
            found = each
    return found


@cache
def _known() -> frozenset[str]:
    """Return the types of layers that some release knows."""
    data = read_toml("service.engine_config", DATA)
    allowed = (entry["allowed"] for entry in data["checked"])
    return frozenset(chain.from_iterable(allowed)) | frozenset(data["taken"])


def _refusal(entry: Mapping[str, Any], model_type: str, said: str, detail: str) -> EngineRefusal:
    if model_type in entry["plain"]:
        return EngineRefusal(Stage.CONFIG, WRAPPED.format(said), type="ValidationError", detail=detail)
    return EngineRefusal(Stage.CONFIG, entry["words"].format(said), type=entry["error"], detail=detail)


def check_layer_types(architecture: ModelArchitecture, release: Version) -> None:
    """Refuse types of layers that no class knows, and lists of more or fewer types than there are layers.

    Raises:
        EngineRefusal: stage ``config``.
    """
    entry = _checked(release)
    for named in sorted(architecture.declared.named_layers, key=lambda found: found.model_type):
        set_by_class = named.model_type in read_toml("service.engine_config", DATA)["last_set"]
        listed = named.before_last if set_by_class else (*named.before_last, named.last)
        unknown = [name for name in listed if name and name not in _known()]
        if unknown and named.model_type in (*entry["types"], *entry["names_alone"]):
            said = entry["unknown"].format(allowed=", ".join(map(repr, entry["allowed"])))
            strange = ", ".join(name[:60] for name in unknown[:5])
            raise _refusal(entry, named.model_type, said, f"The config's layer_types name {strange}.")
    for each in sorted(architecture.declared.uncounted_layers, key=lambda found: found.model_type):
        other = entry.get("others", {}).get(each.model_type)
        if other is not None:
            said = other.format(layers=each.layers, listed=each.listed)
            raise EngineRefusal(Stage.CONFIG, said, type=entry["error"])
        if each.model_type in entry["types"]:
            said = entry["uncounted"].format(layers=each.layers, listed=each.listed)
            detail = "Give layer_types an entry for each layer, no more and no fewer."
            raise _refusal(entry, each.model_type, said, detail)
