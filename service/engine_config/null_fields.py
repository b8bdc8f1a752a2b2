"""Fields of a config that are null where its class takes no null, or where the engine needs a number."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final

from packaging.version import Version

from service.architecture.model import ModelArchitecture
from service.bundled_toml import read_toml
from service.engines.refusal import EngineRefusal, Stage

DATA: Final = "null_fields.toml"
KEY_HEADS: Final = "num_key_value_heads"


@cache
def _data() -> Mapping[str, Any]:
    return read_toml("service.engine_config", DATA)


def _in_force(name: str, release: Version) -> Iterator[Mapping[str, Any]]:
    return (entry for entry in _data()[name] if Version(entry["since"]) <= release)


@cache
def _typed(release: Version) -> frozenset[tuple[str, str]]:
    """Return the types of configs, and the fields of each that may not be null."""
    refused: set[tuple[str, str]] = set()
    for entry in _in_force("typed", release):
        refused |= _pairs(entry.get("fields", {}))
        refused -= _pairs(entry.get("taken", {}))
    return frozenset(refused)


def _pairs(fields: Mapping[str, Sequence[str]]) -> set[tuple[str, str]]:
    return {(model_type, name) for name, types in fields.items() for model_type in types}


def check_null_fields(architecture: ModelArchitecture, release: Version) -> None:
    """Refuse a null field of which the config's class, or the engine, needs a value.

    Raises:
        EngineRefusal: stage ``config``.
    """
    declared = architecture.declared
    for model_type, name in sorted(declared.null_fields & _typed(release)):
        raise EngineRefusal(
            Stage.CONFIG,
            f"Validation error for field '{name}': the value is None",
            type="StrictDataclassFieldValidationError",
            detail=f"The config class of {model_type} takes no null for {name}. Leave the field out, or give "
            "its value.",
        )
    *_, heads = ({"types": ()}, *_in_force("key_heads", release))
    null = {(model_type, KEY_HEADS) for model_type in heads["types"]} & declared.null_fields
    absent = declared.without_key_heads and declared.text_type in heads.get("absent", ())
    if null or absent:
        raise EngineRefusal(
            Stage.CONFIG,
            "ModelConfig: total_num_kv_heads: Input should be a valid integer",
            type="ValidationError",
            detail=f"The engine reads {KEY_HEADS}, for which the config class of {declared.text_type} has no "
            "value. Give the number of key heads: num_attention_heads, unless they are shared.",
        )
