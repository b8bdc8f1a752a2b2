"""The tool that asks real releases, without one: what it asks, and whether it would notice a difference."""

import ast
import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from packaging.version import Version

from service.engines.flags import ServeFlags
from service.engines.releases import rules_for
from service.kv_cache.specs import CacheKind
from tests.oracle.comparison import compare, difference
from tests.oracle.driver import CLASSES
from tests.oracle.questions import (
    Case,
    Question,
    question,
    questions,
)

RULES = rules_for(Version("0.32.0"))
HYBRID, WINDOWS, LATENT = "Qwen/Qwen3.6-35B-A3B", "google/gemma-3-27b-it", "deepseek-ai/DeepSeek-V3"
Way: TypeAlias = tuple[str | int, ...]
"""Keys and positions that lead to a value."""
SHORT = ServeFlags(max_model_len=8192, pipeline_parallel_size=2)


def requested(model: str, flags: ServeFlags = SHORT, gib: float = 40) -> Question:
    return question(model, Case(flags, gib=gib), RULES)


def places(value: object, path: Way = ()) -> list[Way]:
    """Return the way to every number and text of a JSON value."""
    if isinstance(value, Mapping):
        return [place for key, part in value.items() for place in places(part, (*path, key))]
    if isinstance(value, list):
        return [place for key, part in enumerate(value) for place in places(part, (*path, key))]
    return [path]


def altered(answer: Mapping[str, Any], path: Way) -> Mapping[str, Any]:
    changed = copy.deepcopy(answer)
    parent: Any = changed
    for key in path[:-1]:
        parent = parent[key]
    parent[path[-1]] = f"{parent[path[-1]]} altered"
    return changed


@pytest.mark.parametrize("model", [HYBRID, WINDOWS, LATENT])
def test_what_is_asked_and_answered_survives_json(model: str) -> None:
    one = requested(model)
    assert json.loads(json.dumps(one.answer)) == one.answer
    assert compare(one, json.loads(json.dumps(one.answer))).difference is None


@pytest.mark.parametrize("model", [HYBRID, WINDOWS, LATENT])
def test_every_layer_that_owns_a_cache_is_asked_about_once(model: str) -> None:
    one = requested(model)
    named = [name for stage in one.requested["stages"] for name in stage]
    assert len(set(named)) == len(named)
    numbers = {number for stage in one.requested["stages"] for number in stage.values()}
    assert numbers == set(range(len(one.requested["specs"]))) == set(range(len(one.answer["pages"])))
    first = sum(group["layers"] for group in one.answer["groups"])
    assert first == len(one.requested["stages"][0])


@pytest.mark.parametrize("model", [HYBRID, WINDOWS, LATENT])
def test_a_difference_in_any_field_is_reported(model: str) -> None:
    one = requested(model)
    for path in places(one.answer):
        found = difference(one.answer, altered(one.answer, path))
        assert found is not None
        assert found.startswith(str(path[0]))


def test_a_refusal_differs_by_its_type_and_words_but_not_by_the_layer_it_names() -> None:
    one = requested(WINDOWS, ServeFlags(max_model_len=131_072), gib=1)
    error = one.answer["error"]
    assert difference(one.answer, one.answer) is None
    for field in ("type", "message"):
        assert difference(one.answer, {**one.answer, "error": {**error, field: "another"}}) is not None
    named = {"type": "E", "message": "Layer model.layers.0.attn: no."}
    other = {"type": "E", "message": "Layer model.layers.1.attn: no."}
    assert difference({"error": named}, {"error": other}) is None
    assert difference(one.answer, requested(WINDOWS).answer) is not None


def test_bytes_that_the_engine_can_work_out_are_not_told() -> None:
    specified = {
        key
        for model in (HYBRID, WINDOWS, LATENT)
        for spec in requested(model).requested["specs"]
        for key in spec
    }
    assert not specified & {"page_size", "page_size_bytes", "state_bytes", "state_content_bytes"}


def test_every_kind_of_layer_has_a_class_of_the_engine() -> None:
    assert set(CLASSES.values()) == set(CacheKind)


def test_a_release_is_asked_about_many_cache_dtypes_and_flags() -> None:
    found = list(questions(Version("0.32.0"), "gemma-3-27b"))
    cases = [one.case for one in found if one is not None]
    assert {case.flags.kv_cache_dtype for case in cases} >= {"auto", "fp8", "fp8_e4m3", "int8_per_token_head"}
    assert {case.flags.max_model_len for case in cases} >= {None, -1, 8192}
    assert None in found  # some end before there are layers


def test_the_driver_needs_only_the_standard_library_and_what_it_finds_in_the_environment() -> None:
    tree = ast.parse(Path(__file__).with_name("driver.py").read_text("utf-8"))
    modules = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    modules |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert not {name.partition(".")[0] for name in modules} & {"service", "tests", "vllm", "torch"}
