"""The model that a row names, as the advisor reads it and as a naive formula does."""

import re
import tomllib
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from service.advisor.request.plan_request import Model
from service.architecture.config import InvalidConfig, read_document
from service.architecture.draft_reading import read_draft_checkpoint
from service.architecture.model import ModelArchitecture
from service.architecture.reading import UnknownArchitecture, read_architecture, with_modelopt_file
from service.engines.releases import RELEASES
from service.hub.bundled.snapshot import BundledSnapshot
from service.memory.parallelism import Parallelism
from service.memory.weights.counts.parameters import parameter_bytes_per_stage
from tests.accuracy.startups_rows import DATA

_SNAPSHOT = BundledSnapshot()
_TABLE: Mapping[str, Any] = tomllib.loads((DATA / "models.toml").read_text("utf-8"))
_ENTRIES = {name.lower(): entry for entry in _TABLE["model"] for name in entry["names"]}
_DRAFTS = {name.lower(): draft for draft in _TABLE["draft"] for name in draft["names"]}
_BILLIONS = re.compile(r"(?<![0-9A-Za-z])(\d+(?:\.\d+)?)[bB](?![a-zA-Z])")


class NoConfig(LookupError):
    """The model's config is not at hand, or cannot be planned."""


@dataclass(frozen=True, slots=True)
class NaiveModel:
    """What a formula of bytes per token takes from a model's card."""

    parameters: float | None
    weight_bits: float
    layers: int
    kv_heads: int
    head_size: int


@dataclass(frozen=True, slots=True)
class KnownModel:
    """A model whose config is at hand."""

    model: Model
    naive: NaiveModel
    config: str
    """Id of the bundled config."""


@cache
def find_model(name: str) -> KnownModel:
    """Return the model of a row.

    Raises:
        NoConfig: there is no config for it, or its architecture is not modelled.
    """
    specified = re.sub(r"\s*\(.*\)$", "", name).strip()
    entry = _ENTRIES.get(specified.lower(), {"config": specified})
    fetched = _SNAPSHOT.get(entry["config"])
    if fetched is None:
        raise NoConfig("no config at hand")
    document = _document(entry, with_modelopt_file(fetched.config, fetched.quantization_config))
    try:
        architecture = read_architecture(read_document(document))
    except (UnknownArchitecture, InvalidConfig) as error:
        raise NoConfig(str(error).partition(";")[0]) from error
    own = entry["config"] == specified
    size = fetched.total_parameter_bytes if own else None
    if entry.get("stores_output"):
        size = _with_output(architecture)
    parameters = entry.get("parameters", None if "set" in entry else fetched.total_parameters)
    return KnownModel(
        Model(specified, None, "bundled", architecture, size),
        _naive(document, parameters or _named_parameters(specified)),
        fetched.id,
    )


def _with_output(architecture: ModelArchitecture) -> int:
    """Return the size of a checkpoint that is known to hold an output layer beside the embedding."""
    untied = replace(architecture, tie_word_embeddings=False)
    return sum(parameter_bytes_per_stage(untied, Parallelism(), RELEASES[-1]))


def has_draft(name: str) -> bool:
    """Whether the config of a draft is at hand."""
    return name.lower() in _DRAFTS


def with_draft(known: KnownModel, name: str) -> KnownModel:
    """Return a model with the draft that a start names."""
    checkpoint = read_draft_checkpoint(name, read_document(_DRAFTS[name.lower()]["config"]))
    architecture = known.model.architecture
    drafts = replace(architecture.drafts, checkpoint=checkpoint)
    return replace(known, model=replace(known.model, architecture=replace(architecture, drafts=drafts)))


def _document(entry: Mapping[str, Any], bundled: Mapping[str, Any]) -> dict[str, Any]:
    document = deepcopy(dict(bundled))
    for path, value in entry.get("set", {}).items():
        *parents, last = path.split(".")
        part = document
        for parent in parents:
            part = part[parent]
        part[last] = value
        if last == "num_hidden_layers" and "layer_types" in part:
            # The list belongs to the model whose config this is made of.
            part["layer_types"] = part["layer_types"][:value]
    recipe = entry.get("quantization")
    if recipe is None:
        return document
    document.pop("quantization_config", None)
    if recipe != "none":
        document["quantization_config"] = _recipe(recipe)
    return document


def _recipe(name: str) -> object:
    own = _TABLE["recipe"].get(name)
    if own is not None:
        return own
    fetched = _SNAPSHOT.get(name)
    if fetched is None:
        raise NoConfig(f"no recipe {name}")
    return fetched.config["quantization_config"]


def _named_parameters(name: str) -> float | None:
    found = _BILLIONS.search(name)
    return float(found[1]) * 1e9 if found else None


def _naive(document: Mapping[str, Any], parameters: float | None) -> NaiveModel:
    text = document.get("text_config", document)
    heads = text["num_attention_heads"]
    return NaiveModel(
        parameters=parameters,
        weight_bits=_bits(document.get("quantization_config")),
        layers=text["num_hidden_layers"],
        kv_heads=text.get("num_key_value_heads") or heads,
        head_size=text.get("head_dim") or text["hidden_size"] // heads,
    )


def _bits(quantization: Mapping[str, Any] | None) -> float:
    if not quantization:
        return 16
    if "bits" in quantization:
        return float(quantization["bits"])
    groups = quantization.get("config_groups") or {}
    specified = [group["weights"]["num_bits"] for group in groups.values() if group.get("weights")]
    if specified:
        return float(min(specified))
    text = f"{quantization.get('quant_method')} {quantization.get('quant_algo')}".lower()
    return 4 if "fp4" in text else 8
