"""Every class that the newest release registers, against the classes that are read or have a reason.

``registry-0.33.0.json`` holds the names of vLLM 0.33.0, model_executor/models/registry.py, by their lists,
without drafts and without those that stand for any model of the transformers library.
"""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

import pytest
from packaging.version import Version

from service.architecture.readers.registry import KNOWN, decoder_of, pools, unmodelled
from service.engines.model_classes import dropped_classes, first_releases
from service.engines.releases import RELEASES

RELEASE: Final = Version("0.33.0")
GENERATE: Final = ("_TEXT_GENERATION_MODELS", "_MULTIMODAL_MODELS", "_TRANSFORMERS_SUPPORTED_MODELS")
POOL: Final = (
    "_EMBEDDING_MODELS",
    "_LATE_INTERACTION_MODELS",
    "_REWARD_MODELS",
    "_SEQUENCE_CLASSIFICATION_MODELS",
    "_TOKEN_CLASSIFICATION_MODELS",
)
REFUSE: Final = ("_PREVIOUSLY_SUPPORTED_MODELS", "_OOT_SUPPORTED_MODELS")
GONE: Final = {"NemotronH_Nano_VL", "VoxtralStreamingGeneration"}
"""Classes of earlier releases that this one neither lists nor refuses by name."""


@cache
def registered() -> Mapping[str, frozenset[str]]:
    path = Path(__file__).parents[1] / "data" / "engines" / f"registry-{RELEASE}.json"
    return {name: frozenset(classes) for name, classes in json.loads(path.read_text("utf-8")).items()}


def test_the_lists_are_those_of_the_newest_release() -> None:
    assert RELEASES[-1] == RELEASE
    assert set(registered()) == {*GENERATE, *POOL, *REFUSE}


@pytest.mark.parametrize("section", GENERATE)
def test_a_class_that_generates_text_is_read_or_has_a_reason(section: str) -> None:
    assert sorted(name for name in registered()[section] if name not in KNOWN and not unmodelled(name)) == []


@pytest.mark.parametrize("section", POOL)
def test_a_pooling_class_is_read_or_converted_or_told_to_be_one(section: str) -> None:
    known = {name for name in registered()[section] if name in KNOWN or decoder_of(name) or pools(name)}

    assert sorted(registered()[section] - known) == []


@pytest.mark.parametrize("section", GENERATE)
def test_the_releases_classes_are_dated(section: str) -> None:
    dated = {name for name, first in first_releases().items() if first <= RELEASE}

    assert sorted(registered()[section] - dated) == []


def test_no_class_is_dated_that_the_release_does_not_know() -> None:
    dated = {name for name, first in first_releases().items() if first <= RELEASE}
    names = frozenset().union(*registered().values())

    assert dated - names == GONE


def test_a_class_that_the_release_refuses_by_name_is_refused() -> None:
    dropped = {name for name, entry in dropped_classes().items() if entry.since <= RELEASE}
    refused = frozenset().union(*(registered()[section] for section in REFUSE))

    assert dropped <= refused
    assert refused & set(first_releases()) <= dropped
