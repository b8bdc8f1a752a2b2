"""The configs that published commands are planned with: bundled, of a folder, or derived from those."""

import gzip
import hashlib
import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from service.architecture.reading import with_modelopt_file
from service.hub.bundled.snapshot import PACKAGE_DATA, BundledSnapshot
from service.hub.model_files.fetched_config import CONFIG, HF_QUANT_CONFIG

DATA: Final = Path(__file__).parents[1] / "data"
TABLES: Final = (DATA / "recipes" / "models.toml", DATA / "startups" / "models.toml")
"""Of derived configs; the first that names a model counts."""
DERIVED: Final = "derived"
"""Folder below a folder of configs that holds those that are not what the publisher wrote."""


@dataclass(frozen=True, slots=True)
class Configs:
    """Configs by model id, and how each was come by."""

    snapshot: BundledSnapshot
    """All of them, in the form in which the service bundles its own."""
    basis: Mapping[str, str]
    """By id in lower case: ``bundled``, ``folder``, or from which model it was derived and why."""

    def how(self, model_id: str) -> str | None:
        """Return how a config was come by; ``None`` where there is none."""
        return self.basis.get(model_id.lower())


@cache
def gather(folder: Path | None = None) -> Configs:
    """Return the bundled configs, those of a folder, and those that follow from them."""
    models: dict[str, Any] = json.loads(
        gzip.decompress(files("service.hub.bundled").joinpath(PACKAGE_DATA).read_bytes())
    )["models"]
    basis = {name.lower(): "bundled" for name in models}
    if folder is not None:
        _add(_of_folder(folder), "folder", models, basis)
    at_hand = {name.lower(): name for name in models}
    for table in map(_table, TABLES):
        for entry in table["model"]:
            for name in entry["names"]:
                base = at_hand.get(entry["config"].lower())
                if name.lower() in basis or (base is None and entry["config"] not in table.get("config", {})):
                    continue
                models[name] = _derived(entry, table, models, base)
                basis[name.lower()] = f"derived from {entry['config']}: {entry['why']}"
    if folder is not None:
        _add(_of_folder(folder / DERIVED), "folder of derived configs", models, basis)
    packed = gzip.compress(json.dumps({"models": models}).encode(), compresslevel=1)
    return Configs(BundledSnapshot(lambda: packed), basis)


def _add(
    entries: Iterable[tuple[str, Mapping[str, Any]]], how: str, models: dict[str, Any], basis: dict[str, str]
) -> None:
    """Add models that are not there yet."""
    fresh = {name: entry for name, entry in entries if name.lower() not in basis}
    models |= fresh
    basis |= dict.fromkeys(map(str.lower, fresh), how)


@cache
def _table(path: Path) -> Mapping[str, Any]:
    return tomllib.loads(path.read_text("utf-8"))


def _of_folder(folder: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for path in sorted(folder.glob(f"*/*/{CONFIG}")):
        name = str(path.parent.relative_to(folder))
        texts = {CONFIG: path.read_text("utf-8")}
        modelopt = path.with_name(HF_QUANT_CONFIG)
        if modelopt.exists():
            texts[HF_QUANT_CONFIG] = modelopt.read_text("utf-8")
        yield name, _entry(texts)


def _entry(texts: Mapping[str, str], source: str = "folder") -> Mapping[str, Any]:
    kept = {
        name: {
            "text": text,
            "sha256": hashlib.sha256(text.encode()).hexdigest(),
            "source": source,
            "commit": None,
            "licence_of_source": "of the source",
        }
        for name, text in texts.items()
    }
    return {"revision": None, "files": kept, "total_parameters": None, "total_parameter_bytes": None}


def _derived(
    entry: Mapping[str, Any], table: Mapping[str, Any], models: Mapping[str, Any], base: str | None
) -> Mapping[str, Any]:
    document = deepcopy(dict(table["config"][entry["config"]] if base is None else _whole(models[base])))
    for path, value in entry.get("set", {}).items():
        *parents, last = path.split(".")
        part = document
        for parent in parents:
            part = part[parent]
        part[last] = value
    recipe = entry.get("quantization")
    if recipe is not None:
        document.pop("quantization_config", None)
        if recipe != "none":
            document["quantization_config"] = _recipe(recipe, models)
    return _entry({CONFIG: json.dumps(document)}, "derived")


def _whole(model: Mapping[str, Any]) -> Mapping[str, Any]:
    texts = {name: json.loads(file["text"]) for name, file in model["files"].items()}
    return with_modelopt_file(texts[CONFIG], texts.get(HF_QUANT_CONFIG))


def _recipe(name: str, models: Mapping[str, Any]) -> object:
    for table in map(_table, TABLES):
        if name in table["recipe"]:
            return table["recipe"][name]
    return _whole(models[name])["quantization_config"]
