"""Asks a release what its config classes make of null fields; run by the Python of its environment.

``python null_fields_driver.py QUESTION ANSWER`` reads one JSON object, types of configs and names of fields,
and writes one. Each class is made with each field null, as a config.json that says so makes it. It knows
nothing of the project: only transformers and vLLM are imported.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import transformers
import vllm.config  # noqa: F401 - imported first, or the two modules of vLLM below import each other
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from vllm.transformers_utils import config as engine_configs
from vllm.transformers_utils.model_arch_config_convertor import (
    MODEL_ARCH_CONFIG_CONVERTORS,
    ModelArchConfigConvertorBase,
)

KEY_HEADS = "num_key_value_heads"
REFUSED = "StrictDataclassFieldValidationError"
"""What config classes of transformers 5 raise for a value of another type than that of the field."""

Maker = Any


def classes(types: list[str]) -> Iterator[tuple[str, Maker]]:
    """Yield the config class of each type that the release knows: the engine's own, or the library's."""
    for name in types:
        for registry in (engine_configs._CONFIG_REGISTRY, CONFIG_MAPPING):  # noqa: SLF001 - it has no other way
            try:
                yield name, registry[name]
            except KeyError:
                continue
            break


def written(maker: Maker, field: str) -> dict[str, Any]:
    """Return the config.json that a class writes of its defaults, without a field under all its names."""
    try:
        fields: dict[str, Any] = maker().to_dict()
    except Exception:  # noqa: BLE001 - a class that cannot be made of its defaults alone
        return {}
    names = {field, *_other_names(maker, field)}
    return {name: value for name, value in fields.items() if name not in names}


def _other_names(maker: Maker, field: str) -> Iterator[str]:
    for usual, own in getattr(maker, "attribute_map", {}).items():
        if field in (usual, own):
            yield from (usual, own)


def refuses(maker: Maker, field: str) -> bool:
    """Whether the class says that it takes no null for a field."""
    try:
        maker.from_dict({**written(maker, field), field: None})
    except Exception as error:  # noqa: BLE001 - what a class raises of nearly nothing
        return type(error).__name__ == REFUSED
    return False


def lacks_key_heads(maker: Maker, **fields: None) -> bool:
    """Whether the engine finds no number of key heads in such a config with these fields."""
    try:
        whole = maker.from_dict({**written(maker, KEY_HEADS), **fields})
        text = engine_configs.get_hf_text_config(whole)
        convertor = MODEL_ARCH_CONFIG_CONVERTORS.get(whole.model_type, ModelArchConfigConvertorBase)
        return convertor(whole, text).get_total_num_kv_heads() is None
    except Exception:  # noqa: BLE001 - likewise; such a class refuses otherwise, or needs more fields
        return False


def main() -> None:
    """Read what is asked, and write what the release's classes make of it."""
    source, target = map(Path, sys.argv[1:])
    asked = json.loads(source.read_text("utf-8"))
    found = list(classes(asked["types"]))
    answer = {
        "transformers": transformers.__version__,
        "typed": {
            field: [name for name, maker in found if refuses(maker, field)] for field in asked["fields"]
        },
        "null_key_heads": [name for name, maker in found if lacks_key_heads(maker, **{KEY_HEADS: None})],
        "absent_key_heads": [name for name, maker in found if lacks_key_heads(maker)],
    }
    target.write_text(json.dumps(answer), "utf-8")


if __name__ == "__main__":
    main()
