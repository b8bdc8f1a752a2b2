"""Mends copies of a model's files from ``repairs.toml`` when the snapshot is built."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from service.bundled_toml import read_toml

DATA: Final = "repairs.toml"
KINDS: Final = {"M": "mamba", "E": "moe", "*": "attention", "-": "mlp"}
"""Letters of ``hybrid_override_pattern``: transformers, NemotronHConfig."""
GROUP_SIZE: Final = 16
"""Inputs that share a scale in NVFP4."""


@dataclass(frozen=True, slots=True)
class Repair:
    """The text that replaces a file, and its source."""

    text: str
    source: str


def repair(model_id: str, config: Mapping[str, Any], stored: Mapping[str, Any]) -> Repair | None:
    """Return the replacement for a model's ``hf_quant_config.json``; None if ``repairs.toml`` has no entry.

    Raises:
        ValueError: there is an entry, but the copy is complete and needs no repair.
    """
    entry = _entries("repairs").get(model_id)
    if entry is None:
        return None
    if "producer" in stored:
        raise ValueError(f"{model_id} needs no repair: its hf_quant_config.json names its producer")
    section = dict(entry["section"])
    layers = dict(_quantized_layers(entry.get("layers", {}), config))
    if layers:
        section["quantized_layers"] = layers
    return Repair(json.dumps(section), entry["source"])


def corrected(model_id: str, config: Mapping[str, Any]) -> Repair | None:
    """Return the replacement for a model's ``config.json``; None if ``repairs.toml`` has no entry.

    Raises:
        ValueError: there is an entry, but the copy has its values and needs no repair.
    """
    entry = _entries("corrections").get(model_id)
    if entry is None:
        return None
    values = entry["values"]
    if values.items() <= config.items():
        raise ValueError(f"{model_id} needs no repair: its config.json has {values}")
    return Repair(json.dumps({**config, **values}, indent=2), entry["source"])


@cache
def _entries(section: str) -> Mapping[str, Mapping[str, Any]]:
    data = read_toml("service.hub.bundled", DATA)
    return {model_id: entry for entry in data[section] for model_id in entry["models"]}


def _quantized_layers(
    algorithms: Mapping[str, Mapping[str, str]], config: Mapping[str, Any]
) -> Iterator[tuple[str, dict[str, Any]]]:
    for index, kind in enumerate(_kinds(config)):
        for name, algorithm in algorithms.get(kind, {}).items():
            layer: dict[str, Any] = {"quant_algo": algorithm}
            if algorithm == "NVFP4":
                layer["group_size"] = GROUP_SIZE
            yield f"backbone.layers.{index}.{name}", layer


def _kinds(config: Mapping[str, Any]) -> list[str]:
    pattern = config.get("hybrid_override_pattern")
    return list(config["layers_block_type"]) if pattern is None else [KINDS[letter] for letter in pattern]
