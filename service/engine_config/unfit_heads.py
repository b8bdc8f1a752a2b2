"""Config classes that want a hidden size which is a multiple of the number of attention heads."""

from collections.abc import Mapping
from functools import cache
from typing import Final

from packaging.version import Version

from service.architecture.model import ModelArchitecture
from service.bundled_toml import read_toml
from service.engines.refusal import EngineRefusal, Stage

DATA: Final = "unfit_heads.toml"
VALIDATED: Final = "StrictDataclassClassValidationError"
WORDS: Final = "Class validation error for validator 'validate_architecture':\n    ValueError: {}"


@cache
def _checked(release: Version) -> Mapping[str, tuple[str, str]]:
    """Return what the class of each type raises and says of other sizes."""
    entries = read_toml("service.engine_config", DATA)["checked"]
    return {
        model_type: (entry["error"], entry["words"])
        if "error" in entry
        else (VALIDATED, WORDS.format(entry["words"]))
        for entry in entries
        if Version(entry["since"]) <= release
        for model_type in entry["types"]
    }


def check_unfit_heads(architecture: ModelArchitecture, release: Version) -> None:
    """Refuse sizes that the config's class does not take, though the engine could build them.

    Raises:
        EngineRefusal: stage ``config``.
    """
    checked = _checked(release)
    found = sorted(
        (each.model_type, each.hidden, each.heads)
        for each in architecture.declared.unfit_heads
        if each.model_type in checked
    )
    for model_type, hidden, heads in found:
        error, words = checked[model_type]
        raise EngineRefusal(
            Stage.CONFIG,
            words.format(hidden=hidden, heads=heads),
            type=error,
            detail=f"The config class of {model_type} checks this even where head_dim is given.",
        )
