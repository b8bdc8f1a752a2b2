"""Keys of a config that a caller replaces, as the engine replaces them."""

from collections.abc import Mapping
from typing import Any, Final

NESTED: Final = "_config"
"""How the names of configs inside a config end."""
PLAIN: Final = frozenset({"quantization_config", "compression_config", "generation_config"})
"""Keys that end so and hold a plain object, which is replaced whole."""


def overridden(config: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return a config with keys replaced; configs inside it keep the keys that are not named.

    Source: vLLM 0.11.1 to 0.33.0, ModelConfig._apply_dict_overrides and _update_nested; 0.10.2,
    transformers_utils/config.py get_config.
    """
    merged = dict(config)
    for key, value in overrides.items():
        inner = merged.get(key)
        nested = key.endswith(NESTED) and key not in PLAIN
        if nested and isinstance(inner, Mapping) and isinstance(value, Mapping):
            merged[key] = overridden(inner, value)
        else:
            merged[key] = value
    return _with_counted_types(merged, overrides)


def _with_counted_types(merged: dict[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Cut a list of types to an overridden number of layers: the engine checks the file as it is written.

    Source: vLLM 0.11.1 to 0.33.0, transformers_utils/config.py get_config: overrides come after.
    """
    layers, types = overrides.get("num_hidden_layers"), merged.get("layer_types")
    if isinstance(layers, int) and isinstance(types, list) and "layer_types" not in overrides and layers > 0:
        merged["layer_types"] = types[:layers]
    return merged
