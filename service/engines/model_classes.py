"""Which model classes each release can run."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from packaging.version import Version

from service.bundled_toml import read_toml
from service.engines.refusal import EngineRefusal, Stage


@dataclass(frozen=True, slots=True)
class Dropped:
    """From when a class is refused by name."""

    since: Version
    last: str
    """The release that the engine says ran it last."""
    by_transformers: Version | None = None
    """From when transformers' own code is tried in its stead, and fails on the layers that do not attend."""
    runs: Version | None = None
    """From when transformers' own code runs in its stead, whatever the list of dropped classes says.

    Source: vLLM 0.24.0 to 0.33.0, models/registry.py inspect_model_cls; Dots1 asked of 0.26.0 and 0.33.0.
    """


@cache
def first_releases() -> Mapping[str, Version]:
    """Return the first release, from 0.10.2 on, that lists each class."""
    tables: Mapping[str, list[str]] = _bundled()["since"]
    return {name: Version(release) for release, names in tables.items() for name in names}


@cache
def transformed_classes() -> Mapping[str, Version]:
    """Return since when transformers' own code runs classes that the engine lists later."""
    tables: Mapping[str, list[str]] = _bundled()["transformed"]
    return {name: Version(release) for release, names in tables.items() for name in names}


@cache
def dropped_classes() -> Mapping[str, Dropped]:
    """Return the classes that the engine no longer runs."""
    tables: Mapping[str, Mapping[str, str]] = _bundled()["refused"]
    return {name: _dropped(entry) for name, entry in tables.items()}


def _dropped(entry: Mapping[str, str]) -> Dropped:
    tried, runs = (Version(entry[key]) if key in entry else None for key in ("by_transformers", "runs"))
    return Dropped(Version(entry["since"]), entry["last"], tried, runs)


@cache
def _bundled() -> Mapping[str, Any]:
    return read_toml("service.engines", "model_classes.toml")


def check_model_class(class_name: str, release: Version) -> None:
    """Refuse a model class that the release does not know yet, or no longer runs.

    A class that no release lists is let through: the engine may run it by way of transformers.

    Raises:
        EngineRefusal: stage ``config``.
    """
    listed, dropped = first_releases().get(class_name), dropped_classes().get(class_name)
    first = None if listed is None else min(listed, transformed_classes().get(class_name, listed))
    if first is not None and release < first:
        _check_other_ending(class_name, release)
        raise EngineRefusal(
            Stage.CONFIG,
            f"ModelConfig: Model architectures ['{class_name}'] are not supported for now.",
            type="ValidationError",
            detail=f"vLLM {release} has no {class_name}: it came with {listed}.",
        )
    if dropped is None or (dropped.runs is not None and release >= dropped.runs):
        return
    if release >= dropped.since and not _tried(dropped, release):
        raise EngineRefusal(
            Stage.CONFIG,
            f"ModelConfig: Model architecture {class_name} was supported in vLLM until v{dropped.last}, and "
            "is not supported anymore. Please use an older version of vLLM if you want to use this model "
            "architecture.",
            type="ValidationError",
        )


def _check_other_ending(class_name: str, release: Version) -> None:
    """Refuse a text class for which the release takes one of text and images, as that class itself fails."""
    entry: Mapping[str, str] | None = _bundled()["taken_for_another"].get(class_name)
    if entry is None or release < Version(entry["since"]):
        return
    raise EngineRefusal(
        Stage.MODEL,
        f"'{entry['config']}' object has no attribute 'vision_config'",
        type="AttributeError",
        detail=f"vLLM {release} has no {class_name}, and takes {entry['taken_for']} in its stead, which "
        "needs a part on images.",
    )


def _tried(dropped: Dropped, release: Version) -> bool:
    return dropped.by_transformers is not None and release >= dropped.by_transformers


def check_built_class(class_name: str, release: Version) -> None:
    """Refuse a model class that transformers' own code is tried for, and fails on, once it is built.

    Source: vLLM 0.30.0 to 0.33.0, models/transformers/base.py create_attention_instances.

    Raises:
        EngineRefusal: stage ``model``.
    """
    dropped = dropped_classes().get(class_name)
    if dropped is not None and _tried(dropped, release):
        raise EngineRefusal(
            Stage.MODEL,
            "Layer 0 (linear_attention) does not dispatch through the Transformers attention interface and "
            "vLLM has no other way to handle it.",
        )
