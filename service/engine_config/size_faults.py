"""Sizes that single config classes refuse."""

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from packaging.version import Version

from service.architecture.model import ModelArchitecture
from service.bundled_toml import read_toml
from service.engines.refusal import EngineRefusal, Stage

DATA: Final = "size_faults.toml"


@cache
def _raised(release: Version) -> Mapping[str, str]:
    """Return how a release raises them."""
    entries = read_toml("service.engine_config", DATA)["raised"]
    found: Mapping[str, str] = [each for each in entries if Version(each["since"]) <= release][-1]
    return found


def check_size_faults(architecture: ModelArchitecture, release: Version) -> None:
    """Refuse sizes that the config's class does not take.

    Raises:
        EngineRefusal: stage ``config``.
    """
    kinds: Mapping[str, Mapping[str, Any]] = read_toml("service.engine_config", DATA)["kinds"]
    for fault in architecture.declared.size_faults:
        kind = kinds[fault.kind]
        if "since" in kind and release < Version(kind["since"]):
            continue
        raised = _raised(release)
        said = kind["words"].format(*fault.sizes)
        raise EngineRefusal(Stage.CONFIG, raised["words"].format(said), type=raised["error"])
