"""Finds models at hand whose shape a model that is not at hand should have, by its name and architecture."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from service.hub.bundled.snapshot import BundledSnapshot
from service.hub.model_files.fetched_config import FetchedConfig

MOST_SIMILAR: Final = 12
"""Models that are returned at most."""
LONGEST_NAME: Final = 300
"""Characters of a name that are read."""
_PARTS: Final = re.compile(r"\d+(?:\.\d+)?[bm](?![a-z0-9])|\d+(?:\.\d+)?|[a-z]+")
_SIZE: Final = re.compile(r"\d+(?:\.\d+)?[bm]")
_DATE: Final = re.compile(r"\d{4,8}")
_KAGGLE: Final = re.compile(r"/([^/]{1,100})/(?:transformers|pytorch|other)/([^/]{1,100})/\d{1,4}/?$")
"""A model on Kaggle: name, framework, variation, version."""
TRAINING: Final = (
    *("instruct", "chat", "it", "base", "thinking", "hf", "preview", "sft", "dpo", "meta", "unsloth"),
    *("abliterated", "uncensored"),
)
FORMATS: Final = (
    *("awq", "gptq", "bnb", "fp", "int", "bit", "nvfp", "mxfp", "w", "a", "dynamic", "static", "quantized"),
    *("mlx", "bf", "autoround", "block", "tensor", "per", "marlin", "nf", "q", "v"),
)
SAME_SHAPE: Final = frozenset((*TRAINING, *FORMATS))
"""Words of a name that say nothing about the shape of the layers."""


@dataclass(frozen=True, slots=True)
class SimilarModel:
    """A model at hand that should have the shape of another."""

    id: str
    named: bool
    """The names agree up to words that do not change the shape; otherwise only the architecture does."""


@dataclass(frozen=True, slots=True)
class _Name:
    """A model's name in parts."""

    series: tuple[str, ...]
    """Words before the size that say which model it is."""
    numbers: tuple[str, ...]
    """Numbers of the series, such as 2.5."""
    sizes: tuple[str, ...]
    """Such as 30b and 3b."""
    others: frozenset[str]
    """All parts."""


def similar_models(
    name: str, architecture: str | None, snapshot: BundledSnapshot
) -> tuple[SimilarModel, ...]:
    """Return models at hand that should have the shape of the named one, the likeliest first.

    With the logged architecture, the words of the known name must stand in the given one, with the same
    numbers and sizes; then the other models of that architecture follow, which only the log's own figures
    can confirm. Without an architecture, the names may only differ in words of `SAME_SHAPE`.
    """
    given = _parsed(_name_of(name))
    at_hand = _at_hand(snapshot)
    fitting = [
        (each, known)
        for each, known, classes in at_hand
        if _agree(given, known, strict=architecture is None)
        and (architecture is None or architecture in classes)
    ]
    fitting.sort(key=lambda each: (len(given.others ^ each[1].others), each[0].lower()))
    named = [each for each, _ in fitting]
    others = [each for each, _, classes in at_hand if architecture in classes and each not in named]
    found = (*(SimilarModel(each, named=True) for each in named), *_unnamed(others))
    return found[:MOST_SIMILAR]


def _unnamed(ids: list[str]) -> Iterator[SimilarModel]:
    yield from (SimilarModel(each, named=False) for each in ids)


def _name_of(model: str) -> str:
    """Return the part of an id or of a path that names the model."""
    model = model[-LONGEST_NAME:]
    kaggle = _KAGGLE.search(model)
    if kaggle is not None:
        return f"{kaggle[1]}-{kaggle[2]}"
    return next((part for part in reversed(model.split("/")) if part), "")


def _parsed(name: str) -> _Name:
    parts = _PARTS.findall(name.lower())
    sizes = tuple(each for each in parts if _SIZE.fullmatch(each))
    first = next((at for at, each in enumerate(parts) if _SIZE.fullmatch(each)), len(parts))
    numbers = tuple(each for each in parts[:first] if each[0].isdigit() and not _DATE.fullmatch(each))
    series = tuple(each for each in parts if each.isalpha() and each not in SAME_SHAPE)
    return _Name(series, numbers, sizes, frozenset(parts))


def _agree(given: _Name, known: _Name, *, strict: bool) -> bool:
    """Whether a name is that of a known model, with more words at most; ``strict``: with none."""
    if not known.series or given.numbers != known.numbers or given.sizes != known.sizes:
        return False
    if strict:
        return given.series == known.series
    words = iter(given.series)
    return all(word in words for word in known.series)


@lru_cache(maxsize=4)
def _at_hand(snapshot: BundledSnapshot) -> tuple[tuple[str, _Name, frozenset[str]], ...]:
    """Return the id, the parsed name and the architectures of every model at hand that names some."""
    found = ((each, snapshot.get(each)) for each in snapshot.ids())
    return tuple(
        (each, _parsed(_name_of(each)), _architectures(fetched))
        for each, fetched in found
        if fetched is not None and _architectures(fetched)
    )


def _architectures(fetched: FetchedConfig) -> frozenset[str]:
    named = fetched.config.get("architectures")
    return frozenset(map(str, named)) if isinstance(named, list | tuple) else frozenset()
