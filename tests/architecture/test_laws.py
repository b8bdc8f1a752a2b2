"""Laws of reading: what a config means does not depend on how it is written down."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import pytest

from service.architecture.config import read_document
from service.architecture.reading import read_architecture
from tests.accuracy.recorded import RECORDINGS
from tests.memory.recorded import records

RECORDED: Final[Mapping[str, dict[str, Any]]] = {
    **{row["config"]["architectures"][0]: row["config"] for row in records("families.json")},
    **{name: dict(config) for recording in RECORDINGS for name, config in recording.configs.items()},
}
"""Configs that real releases loaded."""


UNKNOWN: Final[Mapping[str, Any]] = {"_field_of_no_class": None}


def rewritten(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document with its fields in reverse order, and with a field that no class has.

    Nested sections stay in order: a reading keeps the order of quantization groups and of scalings.
    """
    sections = {key: {**UNKNOWN, **value} for key, value in document.items() if key.endswith("text_config")}
    return {**UNKNOWN, **{key: sections.get(key, document[key]) for key in reversed(list(document))}}


@pytest.mark.parametrize("name", sorted(RECORDED))
def test_the_order_of_fields_and_unknown_null_fields_do_not_count(name: str) -> None:
    document = RECORDED[name]
    architecture = read_architecture(read_document(document))

    assert read_architecture(read_document(rewritten(document))) == architecture


@pytest.mark.parametrize("name", sorted(RECORDED))
def test_a_layer_reads_only_the_cache_of_an_earlier_layer_that_owns_one(name: str) -> None:
    layers = read_architecture(read_document(RECORDED[name])).layers
    sources = {
        index: source
        for index, layer in enumerate(layers)
        if (source := getattr(layer.mixer, "shares_cache_of", None)) is not None
    }

    assert all(source < index and source not in sources for index, source in sources.items())


@pytest.mark.parametrize("name", sorted(RECORDED))
def test_equal_layers_are_one_object_and_hash_alike(name: str) -> None:
    architecture = read_architecture(read_document(RECORDED[name]))

    distinct = architecture.distinct_layers
    assert len(set(distinct)) == len(distinct)
    assert all(any(layer is each for each in distinct) for layer in architecture.layers)
    assert {replace(layer) for layer in distinct} == set(distinct)
    assert {replace(layer, norms=layer.norms + 1) for layer in distinct} != set(distinct)
