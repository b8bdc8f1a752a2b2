"""Config classes and models that want a hidden size which is a multiple of the number of heads."""

from collections.abc import Mapping
from functools import cache
from typing import Final

from packaging.version import Version

from service.architecture.layers.attention import Attention
from service.architecture.model import ModelArchitecture
from service.bundled_toml import read_toml
from service.engines.refusal import EngineRefusal, Stage
from service.engines.rules.parallelism import ParallelismRules

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


@cache
def _built(release: Version) -> Mapping[str, tuple[str, str]]:
    """Return what each class raises and says of other sizes once it is built."""
    entries = read_toml("service.engine_config", DATA)["built"]
    return {
        name: (entry["error"], entry["words"])
        for entry in entries
        if Version(entry["since"]) <= release
        for name in entry["classes"]
    }


def check_matched_heads(architecture: ModelArchitecture, ranks: int, rules: ParallelismRules) -> None:
    """Refuse query heads that the key/value heads of a rank do not divide, once projections are built.

    Source: vLLM 0.20.2 to 0.33.0, layers/attention/attention.py.

    Raises:
        EngineRefusal: stage ``model``.
    """
    if architecture.class_name in rules.whole_kv_heads:
        return
    for mixer in (layer.mixer for layer in architecture.distinct_layers):
        if not isinstance(mixer, Attention):
            continue
        queries, keys = mixer.num_heads // ranks, max(1, mixer.num_kv_heads // ranks)
        if queries % keys:
            words = f"num_heads ({queries}) is not divisible by num_kv_heads ({keys})"
            raise EngineRefusal(Stage.MODEL, words, type="AssertionError")


def check_built_heads(architecture: ModelArchitecture, ranks: int, release: Version) -> None:
    """Refuse sizes that the model's own code does not take; some name the heads of a rank.

    Raises:
        EngineRefusal: stage ``model``.
    """
    declared = architecture.declared
    error, words = _built(release).get(declared.text_model, ("", ""))
    if not error:
        return
    for each in sorted(declared.unfit_heads, key=lambda found: found.model_type):
        if each.model_type == declared.text_type:
            said = words.format(hidden=each.hidden, heads=each.heads, share=each.heads // ranks)
            raise EngineRefusal(Stage.MODEL, said, type=error)
