"""The configs bundled with the package. They are used when the Hub does not answer.

The package data is one gzip-compressed JSON object, written by `service.hub.bundled.build_snapshot`:

    {"models": {"<id>": {
        "revision": "<commit or null>",
        "files": {"config.json": {"text", "sha256", "source", "commit", "licence_of_source"}, ...},
        "total_parameters": {"value", "source"} or null,
        "total_parameter_bytes": {"value", "source"} or null}}}

Texts are stored unchanged, so that their SHA-256 can be checked. `commit` is a commit of the place that
`source` names; only `revision` is a commit of the model's own repository.
"""

from __future__ import annotations

import gzip
import json
from functools import cache, cached_property
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from service.bundled_toml import read_toml
from service.hub.model_files.fetched_config import CONFIG, HF_QUANT_CONFIG, POOLING, SENTENCES, FetchedConfig
from service.nearest_names import nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

PACKAGE_DATA: Final = "snapshot.json.gz"
WITHHELD: Final = "withheld.toml"

_SIMILARITY: Final = 0.6
LEAST_WORD: Final = 3
"""Letters of a word by which models are found; shorter ones stand in many ids."""


def _package_data() -> bytes:
    return files("service.hub.bundled").joinpath(PACKAGE_DATA).read_bytes()


@cache
def withheld_models() -> Mapping[str, str]:
    """Return why models of the snapshot are neither listed nor planned, by their ids."""
    reasons: Mapping[str, str] = read_toml("service.hub.bundled", WITHHELD)["withheld"]
    return reasons


class BundledSnapshot:
    """Configs by model id. The data is read on first use; the case of ids does not matter."""

    def __init__(
        self, read: Callable[[], bytes] = _package_data, withheld: Mapping[str, str] | None = None
    ) -> None:
        """``withheld``: reasons by the ids that are left out; without it, those of ``withheld.toml``."""
        self._read = read
        self._withheld = withheld_models() if withheld is None else withheld

    @cached_property
    def _models(self) -> Mapping[str, Mapping[str, Any]]:
        models: Mapping[str, Mapping[str, Any]] = json.loads(gzip.decompress(self._read()))["models"]
        return {model_id: model for model_id, model in models.items() if model_id not in self._withheld}

    @cached_property
    def _canonical_ids(self) -> Mapping[str, str]:
        return {model_id.lower(): model_id for model_id in self._models}

    @cached_property
    def _ids(self) -> tuple[str, ...]:
        return tuple(sorted(self._models, key=str.lower))

    def ids(self) -> tuple[str, ...]:
        """Return the ids of all bundled models, in alphabetical order."""
        return self._ids

    def get(self, model_id: str) -> FetchedConfig | None:
        """Return the bundled config of a model under its canonical id; None if it is not bundled."""
        canonical = self._canonical_ids.get(model_id.lower())
        return None if canonical is None else _fetched(canonical, self._models[canonical])

    def search(self, text: str) -> tuple[str, ...]:
        """Return the ids that contain every word of `text`, in alphabetical order."""
        words = text.lower().split()
        return tuple(model_id for model_id in self.ids() if all(word in model_id.lower() for word in words))

    def nearest(self, model_id: str, count: int = 3, beside: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Return up to `count` ids of these models, or `beside` them, with a similar spelling, best first."""
        known = {**{each.lower(): each for each in beside}, **self._canonical_ids}
        similar = nearest(model_id.lower(), known, count=count, cutoff=_SIMILARITY)
        return tuple(known[found] for found in similar)

    def holding(self, word: str) -> tuple[str, ...]:
        """Return the ids of these models that hold a word of an id; those whose name begins with it first."""
        folded = word.lower()
        if len(folded) < LEAST_WORD:
            return ()
        found = [own for each, own in self._canonical_ids.items() if folded in each]
        return tuple(sorted(found, key=lambda own: not own.lower().partition("/")[2].startswith(folded)))


def _fetched(model_id: str, model: Mapping[str, Any]) -> FetchedConfig:
    # Texts are parsed for each call, so that a caller who changes its config does not change another's.
    texts = model["files"]
    parameters, size = model["total_parameters"], model["total_parameter_bytes"]
    return FetchedConfig(
        id=model_id,
        revision=model["revision"],
        source="bundled",
        config=json.loads(texts[CONFIG]["text"]),
        quantization_config=_parsed(texts, HF_QUANT_CONFIG),
        pools=POOLING in texts,
        pooling=_parsed(texts, POOLING),
        sentences=_parsed(texts, SENTENCES),
        total_parameters=parameters["value"] if parameters else None,
        total_parameter_bytes=size["value"] if size else None,
        provenance=_provenance(model),
    )


def _parsed(texts: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    if name not in texts:
        return None
    parsed: Mapping[str, Any] = json.loads(texts[name]["text"])
    return parsed


def _provenance(model: Mapping[str, Any]) -> str:
    parts = []
    for name, file in sorted(model["files"].items(), key=lambda item: item[0] != CONFIG):
        commit = f", commit {file['commit']}" if file["commit"] else ""
        source = f"{file['source']}{commit}, licence {file['licence_of_source']}"
        parts.append(f"{name} ({file['sha256']}) from {source}")
    for label, key in (("parameters", "total_parameters"), ("bytes", "total_parameter_bytes")):
        if model[key]:
            parts.append(f"{label} from {model[key]['source']}")
    return "bundled snapshot: " + "; ".join(parts)
