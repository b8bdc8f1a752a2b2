"""Caches keep results by model; models whose checkpoints list 100,000 modules do not pile up in them."""

import gc
from dataclasses import replace

import pytest
from packaging.version import Version

from service.architecture.config import read_document
from service.architecture.long_lists import LONG_LISTS, LongLists
from service.architecture.model import ModelArchitecture
from service.architecture.reading import read_architecture
from service.architecture.weight_schemes import LONG, Names
from service.memory.parallelism import Parallelism
from service.memory.weights.counts.parameters import parameter_bytes_per_stage
from tests.mutations.configs import recorded_configs

MODEL = "Qwen/Qwen2.5-1.5B-Instruct"
RELEASE = Version("0.32.0")
MODULES = 2 * LONG
MODELS = 40


def _model(number: int) -> ModelArchitecture:
    """Return a model with a list of modules that no other has, of which one is a module of its own."""
    listed = [f"model.towers.{number}.layers.{index}.mlp.down_proj" for index in range(MODULES)]
    section = {"quant_method": "fp8", "modules_to_not_convert": ["model.layers.0.mlp.down_proj", *listed]}
    return read_architecture(read_document({**recorded_configs()[MODEL], "quantization_config": section}))


def _held() -> int:
    """Return the characters of long lists that anything holds."""
    gc.collect()
    lists = (each for each in gc.get_objects() if isinstance(each, Names) and len(each) > LONG)
    return sum(sum(map(len, each)) for each in lists)


def test_caches_hold_no_more_long_lists_than_their_characters_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    deployment = Parallelism()
    quantization = _model(0).quantization
    assert quantization is not None
    one = sum(len(name) for name in quantization.ignored)
    monkeypatch.setattr(LONG_LISTS, "most", 8 * one)
    before = _held()

    sizes = {parameter_bytes_per_stage(_model(number), deployment, RELEASE) for number in range(MODELS)}

    assert len(sizes) == 1  # the lists differ in modules that the model does not have
    assert _held() - before <= 8 * one


def test_a_model_is_weighed_alike_after_the_caches_were_emptied(monkeypatch: pytest.MonkeyPatch) -> None:
    model, deployment = _model(1), Parallelism()
    first = parameter_bytes_per_stage(model, deployment, RELEASE)
    whole = replace(model, quantization=None)

    monkeypatch.setattr(LONG_LISTS, "most", 0)
    again = _model(1)

    assert parameter_bytes_per_stage(again, deployment, RELEASE) == first
    assert first[0] < parameter_bytes_per_stage(whole, deployment, RELEASE)[0]


def test_caches_are_emptied_by_the_characters_of_all_lists_since() -> None:
    emptied = []

    class Cache:
        def cache_clear(self) -> None:
            emptied.append(self)

    lists = LongLists(most=1000)
    lists.emptied(Cache())
    for _ in range(4):
        lists.add([400])  # the third is too much, and the fourth fits beside it
    assert len(emptied) == 1
    lists.add([400])
    assert len(emptied) == 2
