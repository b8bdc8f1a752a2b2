"""The committed document is the application's own, and its examples work."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from _pytest.mark import ParameterSet
from fastapi import FastAPI
from starlette.testclient import TestClient

from service.api.examples import EXAMPLES
from service.api.openapi_yaml import openapi_yaml
from tests.api.record_examples import RECORDED, REQUESTS, ask

COMMITTED = Path(__file__).parents[2] / "openapi.yaml"
DOCUMENT = yaml.safe_load(COMMITTED.read_text("utf-8"))
NEEDING_A_HUB = {"get_weights"}
OPERATIONS = [
    pytest.param(method, path, operation, id=operation["operationId"])
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
]


def _is_probe(case: ParameterSet) -> bool:
    """Whether an operation needs a token and a job; tests of probes ask these examples."""
    operation: Any = case.values[2]
    return not {"probes", "workers", "calibrations"}.isdisjoint(operation["tags"])


def test_the_committed_document_is_current(app: FastAPI) -> None:
    assert COMMITTED.read_text("utf-8") == openapi_yaml(app), "run `make openapi`"


def test_it_is_openapi_3_1() -> None:
    assert DOCUMENT["openapi"].startswith("3.1.")


def test_every_example_belongs_to_an_operation() -> None:
    ids = [case.id for case in OPERATIONS]
    assert len(ids) == len(set(ids))
    assert set(EXAMPLES) <= set(ids)


@pytest.mark.parametrize(("method", "path", "operation"), OPERATIONS)
def test_an_operation_documents_its_faults_as_problems(method: str, path: str, operation: dict) -> None:  # type: ignore[type-arg]
    del method, path
    for status in ("4XX", "5XX"):
        assert list(operation["responses"][status]["content"]) == ["application/problem+json"]


@pytest.mark.parametrize(("method", "path", "operation"), [one for one in OPERATIONS if not _is_probe(one)])
def test_an_example_is_answered(method: str, path: str, operation: dict, client: TestClient) -> None:  # type: ignore[type-arg]
    parameters = {one["name"]: one for one in operation.get("parameters", ())}
    required = {name for name, one in parameters.items() if one["required"]}
    given = {name: one["example"] for name, one in parameters.items() if "example" in one}
    assert required <= given.keys()
    in_path = {name: value for name, value in given.items() if parameters[name]["in"] == "path"}
    query = {name: value for name, value in given.items() if name not in in_path}
    body = None
    if "requestBody" in operation:
        (example,) = operation["requestBody"]["content"]["application/json"]["examples"].values()
        body = example["value"]
    reply = client.request(method.upper(), path.format(**in_path), params=query, json=body)
    offline = operation["operationId"] in NEEDING_A_HUB
    assert reply.status_code == (404 if offline else 200), reply.text


@pytest.mark.parametrize("operation", REQUESTS)
def test_a_recorded_answer_is_the_answer(operation: str, client: TestClient) -> None:
    recorded = json.loads(RECORDED.read_text("utf-8"))
    assert recorded[operation] == ask(client, operation), "run `python -m tests.api.record_examples`"


def test_no_answer_is_recorded_that_nobody_compares() -> None:
    assert json.loads(RECORDED.read_text("utf-8")).keys() == REQUESTS.keys()


def test_unions_of_objects_have_a_discriminator() -> None:
    """A client that reads an answer never has to try one schema after another."""
    answers = {name for name in DOCUMENT["components"]["schemas"] if not name.endswith(("Input", "Body"))}
    unions = [
        f"{name}.{key}"
        for name in sorted(answers)
        for key, member in DOCUMENT["components"]["schemas"][name].get("properties", {}).items()
        for form in ("anyOf", "oneOf")
        if sum("$ref" in one for one in member.get(form, ())) > 1 and "discriminator" not in member
    ]
    assert unions == []


def test_every_operation_says_which_token_it_needs_and_where_the_service_is() -> None:
    assert DOCUMENT["servers"]
    for case in OPERATIONS:
        operation: Any = case.values[2]
        assert isinstance(operation["security"], list)
        private = not {"probes", "workers", "calibrations"}.isdisjoint(operation["tags"])
        assert private is ({"HTTPBearer": []} in operation["security"] and {} not in operation["security"])


def test_schemas_have_names_of_their_own() -> None:
    titles = [schema.get("title", name) for name, schema in DOCUMENT["components"]["schemas"].items()]
    assert len(titles) == len(set(titles))
    assert not [name for name in DOCUMENT["components"]["schemas"] if "__" in name]


PLACES = [
    *(
        pytest.param(schema, member, id=f"{name}.{key}")
        for name, schema in DOCUMENT["components"]["schemas"].items()
        for key, member in schema.get("properties", {}).items()
    ),
    *(
        pytest.param(operation, {**one["schema"], **one}, id=f"{operation['operationId']} {one['name']}")
        for methods in DOCUMENT["paths"].values()
        for operation in methods.values()
        for one in operation.get("parameters", ())
    ),
]
"""Every property beside its schema, and every parameter beside its operation."""
UNITS = re.compile(
    r"\b(bytes?|tokens?|blocks?|layers?|requests?|seconds|days|GPUs|GB|percent|percentile|ranks?|stages|replicas|"
    r"elements|weights|bits|measurements?|lines?|index|starts?|leases?|groups?|files|tensors|candidates|probes|"
    r"multiprocessors|status|value|share|rank of|number of)\b",
    re.IGNORECASE,
)


def _types(member: dict[str, Any]) -> set[str]:
    return {str(one.get("type")) for one in (member, *member.get("anyOf", ()))}


@pytest.mark.parametrize(("around", "member"), PLACES)
def test_a_value_says_what_it_is(around: dict[str, Any], member: dict[str, Any]) -> None:
    words = member.get("description", "")
    assert words
    if not _types(member).isdisjoint({"integer", "number"}):
        assert UNITS.search(words), "a number needs its unit"
    if "null" in _types(member):
        everywhere = f"{words} {around.get('description', '')}"
        assert re.search(r"\b(null|left out)\b", everywhere, re.IGNORECASE), "say what null means"
